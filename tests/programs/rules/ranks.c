/* ranks RULE bad|good: ranks that wait for descriptors. */
#include "memory.h"
#include <signal.h>

enum { RANKS = 4 };
static int rank, inbox[RANKS][2];

/* Sends a descriptor to each other rank of a group of `size`, and imports theirs; with these flags for the export. */
static void swap(struct link parent, int first, int size, int flags, int says) {
    Allocation allocation = create(DESCRIPTOR);
    int fd = -1;
    CUresult result = cuMemExportToShareableHandle(&fd, allocation, DESCRIPTOR, flags);
    if (says) printed("cuMemExportToShareableHandle", result);
    if (result) exit(0);
    for (int i = 0; i < size; i++) {
        ours = inbox[first + i][1];
        if (first + i != rank) send_descriptor(fd);
    }
    close(fd);
    tell(parent);
    theirs = inbox[rank][0];
    for (int i = 1; i < size; i++) {
        int got = receive_descriptor();
        OK(cuMemRelease(imported(got)));
        close(got);
    }
    OK(cuMemRelease(allocation));
}

static void begin(void) {
    char text[2] = {(char)('0' + rank), 0};
    CHECK(setenv("RANK", text, 1) == 0);
    start(0);
}

/* All of a few ranks; in the wrong job, the export of the last one fails. */
static void exchange(struct link parent) {
    begin();
    swap(parent, 0, 2, bad && rank == 1 ? 7 : 0, rank == 0);
}

/* All ranks, and then the first two and the last two; in the wrong job, rank 1 leaves before that. */
static void exchange_twice(struct link parent) {
    begin();
    swap(parent, 0, RANKS, 0, 0);
    wait_for(parent);
    if (bad && rank == 1) return;
    swap(parent, rank / 2 * 2, 2, 0, rank == 0);
}

static void launch(void (*work)(struct link), int count, int rounds, int waits) {
    struct link ranks[RANKS];
    for (int i = 0; i < count; i++) CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, inbox[i]) == 0);
    for (rank = 0; rank < count; rank++) ranks[rank] = employ(work);
    for (int round = 1; round < rounds; round++) {
        for (int i = 0; i < count; i++) wait_for(ranks[i]);
        for (int i = 0; i < count; i++) tell(ranks[i]);
    }
    for (int i = 0; i < count; i++) {
        if (!bad || i != waits) {
            ended(ranks[i]);
            continue;
        }
        wait_for(ranks[i]);
        CHECK(kill(ranks[i].pid, SIGKILL) == 0 && waitpid(ranks[i].pid, NULL, 0) == ranks[i].pid);
    }
}

static void failed(void) { launch(exchange, 2, 1, 0); }
static void of_a_group(void) { launch(exchange_twice, RANKS, 2, 0); }

SCENES({"ranks-wait-for-descriptor/failed", failed}, {"ranks-wait-for-descriptor/group", of_a_group})
