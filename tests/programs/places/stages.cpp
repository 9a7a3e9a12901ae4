// Events owned by a class of the header; the program names the flags.
#include "driver.hpp"
#include "job.h"
#include <map>
#include <memory>

class Stages {
  std::map<std::string, std::unique_ptr<driver::event>> events_;
public:
  void add(const std::string &name, unsigned flags) { events_[name] = std::make_unique<driver::event>(flags); }
  const driver::event &at(const std::string &name) const { return *events_.at(name); }
};

static CUipcEventHandle publish(const Stages &s, const std::string &name) {
  try {
    return s.at(name).handle();
  } catch (const driver::error &e) {
    std::cerr << name << ": " << e.what() << '\n';
    return {};
  }
}

int main() {
  driver::use(0);
  Stages stages;
  stages.add("forward", CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
  stages.add("backward", CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
  stages.add("update", CU_EVENT_DEFAULT);
  for (const char *name : {"forward", "backward"}) publish(stages, name);
  publish(stages, "update"); /*@*/
}
