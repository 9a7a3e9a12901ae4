/* Two processes and the pipes between them; nothing of CUDA. */
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
static int job_fd; /* to the other process */
static pid_t job_child;
__attribute__((unused)) static int job_split(void) { /* 0: exporter (parent), 1: importer */
  int s[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, s)) exit(90);
  job_child = fork();
  job_fd = s[job_child == 0];
  close(s[job_child != 0]);
  return job_child == 0;
}
__attribute__((unused)) static void job_put(const void *p, size_t n) { if (write(job_fd, p, n) != (ssize_t)n) exit(91); }
__attribute__((unused)) static void job_get(void *p, size_t n) {
  for (size_t k = 0; k < n;) { ssize_t r = read(job_fd, (char *)p + k, n - k); if (r <= 0) exit(92); k += r; }
}
__attribute__((unused)) static void job_tell(void) { char c = 1; job_put(&c, 1); }
__attribute__((unused)) static void job_wait(void) { char c; job_get(&c, 1); }
__attribute__((unused)) static void job_send_fd(int fd) {
  char c = 0, buf[CMSG_SPACE(sizeof fd)] = {0};
  struct iovec v = {&c, 1};
  struct msghdr m; memset(&m, 0, sizeof m);
  m.msg_iov = &v; m.msg_iovlen = 1; m.msg_control = buf; m.msg_controllen = sizeof buf;
  struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  h->cmsg_level = SOL_SOCKET; h->cmsg_type = SCM_RIGHTS; h->cmsg_len = CMSG_LEN(sizeof fd);
  memcpy(CMSG_DATA(h), &fd, sizeof fd);
  if (sendmsg(job_fd, &m, 0) != 1) exit(93);
}
__attribute__((unused)) static int job_recv_fd(void) {
  int fd; char c, buf[CMSG_SPACE(sizeof fd)];
  struct iovec v = {&c, 1};
  struct msghdr m; memset(&m, 0, sizeof m);
  m.msg_iov = &v; m.msg_iovlen = 1; m.msg_control = buf; m.msg_controllen = sizeof buf;
  if (recvmsg(job_fd, &m, 0) != 1) exit(94);
  memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
  return fd;
}
__attribute__((unused)) static int job_join(void) {
  int s = 0;
  if (job_child > 0) waitpid(job_child, &s, 0);
  return 0;
}
