#define _GNU_SOURCE
#include <cuda.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Programs call functions that cuda.h no longer wants. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/* A process that takes longer is ended, and a call that did not return is given this time. */
enum { PROCESSES = NUMBER, SECONDS = 60, HANG_SECONDS = 5 };

static int sockets[PROCESSES][PROCESSES], me; /* sockets[a][b] is the end of process a, for process b. */
static volatile struct { int differences, ended[PROCESSES]; } *shared;
static const int signals[PROCESSES] = {SIGNALS}; /* that end the processes; 0 for one that exits */
