/* Each descriptor is sent; none is closed afterwards. */
#include "job.h"
#include "wrap.h"
enum { N = 2 << 20, SEGMENTS = 160 };
static wrap_seg seg[SEGMENTS];

static void publish(int from, int to) {
  for (int i = from; i < to; i++) {
    int fd;
    if (wrap_seg_fd(&seg[i], &fd)) exit(1); /*@*/
    job_send_fd(fd);
  }
}
static int importer(void) {
  wrap_seg s[SEGMENTS];
  wrap_start(0);
  for (int i = 0; i < SEGMENTS; i++) {
    int fd = job_recv_fd();
    wrap_seg_import(&s[i], N, fd);
    close(fd);
  }
  for (int i = 0; i < SEGMENTS; i++) wrap_seg_drop(&s[i]);
  job_tell();
  return 0;
}
int main(void) {
  if (job_split()) return importer();
  wrap_start(0);
  for (int i = 0; i < SEGMENTS; i++)
    if (wrap_seg_make(&seg[i], N, 1)) return 1;
  publish(0, SEGMENTS);
  job_wait();
  for (int i = 0; i < SEGMENTS; i++) wrap_seg_drop(&seg[i]);
  return job_join();
}
