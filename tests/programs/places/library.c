/* Events by way of libwrap.so. */
#include "job.h"
#include "wrap.h"
struct stage { const char *name; CUevent done; CUipcEventHandle handle; };

static int stage_open(struct stage *s, const char *name, unsigned flags) {
  s->name = name;
  return wrap_event(&s->done, flags);
}
static int stage_publish(struct stage *s) {
  if (wrap_event_handle(s->done, &s->handle)) {
    fprintf(stderr, "cannot publish %s\n", s->name);
    return -1;
  }
  return 0;
}
int main(void) {
  struct stage load, train;
  if (wrap_start(0)) return 1;
  stage_open(&load, "load", CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
  stage_open(&train, "train", CU_EVENT_DISABLE_TIMING);
  stage_publish(&load);
  stage_publish(&train); /*@*/
  return 0;
}
