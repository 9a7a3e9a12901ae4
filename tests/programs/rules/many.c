/* many ROUNDS: sixteen processes at once. In each round each of them exports memory, frees it when three others have opened
 * and closed it, and goes on; those three open it once more after the free. When all have done that, each opens what
 * another one freed in each round, and a handle that nobody exported. No process exits while another one opens. Prints
 * how many openings came after a free. No scene of the table: it is not about one call. */
#include "rules.h"
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>

enum { RANKS = 16, IMPORTERS = 3, MOST_ROUNDS = 64 };
static const int distance[IMPORTERS] = {1, 5, 11};
static int rounds;

/* What all of them see. */
static struct {
    pthread_barrier_t done;
    struct export {
        Handle handle;
        sem_t made, closed, ended;
    } exports[RANKS][MOST_ROUNDS];
} *shared;

static void post(sem_t *semaphore) {
    for (int i = 0; i < IMPORTERS; i++) CHECK(sem_post(semaphore) == 0);
}

static void must_fail(Handle handle) {
    CUdeviceptr p;
    CHECK(cuIpcOpenMemHandle_v2(&p, handle, LAZY) != 0);
}

/* One export, and the three of others. */
static void take_turn(int rank, int round) {
    struct export *own = &shared->exports[rank][round];
    CUdeviceptr p = allocate();
    own->handle = export(p);
    post(&own->made);
    for (int i = 0; i < IMPORTERS; i++) {
        struct export *other = &shared->exports[(rank + distance[i]) % RANKS][round];
        CHECK(sem_wait(&other->made) == 0);
        OK(cuIpcCloseMemHandle(open_memory(other->handle)));
        CHECK(sem_post(&other->closed) == 0);
    }
    for (int i = 0; i < IMPORTERS; i++) CHECK(sem_wait(&own->closed) == 0);
    OK(cuMemFree_v2(p));
    post(&own->ended);
}

static void take_part(int rank) {
    start(rank % 2);
    for (int round = 0; round <= rounds; round++) {
        int is_last = round == rounds;
        if (is_last) pthread_barrier_wait(&shared->done);
        else take_turn(rank, round);
        /* From one place: of calls that repeat, few have their stacks recorded, and the others count for the place of the last one. */
        for (int i = 0; i < (is_last ? rounds : IMPORTERS); i++) {
            struct export *other = is_last ? &shared->exports[(rank + 3) % RANKS][i]
                                           : &shared->exports[(rank + distance[i]) % RANKS][round];
            if (!is_last) CHECK(sem_wait(&other->ended) == 0);
            must_fail(other->handle);
        }
    }
    Handle nobodys;
    memset(&nobodys, 0x77, sizeof nobodys);
    must_fail(nobodys);
    pthread_barrier_wait(&shared->done);
}

int main(int argc, char **argv) {
    CHECK(argc == 2 && (rounds = atoi(argv[1])) > 0 && rounds <= MOST_ROUNDS);
    pid_t pids[RANKS];
    int status;
    pthread_barrierattr_t attributes;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED && pthread_barrierattr_init(&attributes) == 0);
    CHECK(pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_barrier_init(&shared->done, &attributes, RANKS) == 0);
    for (int i = 0; i < RANKS * MOST_ROUNDS; i++) {
        struct export *export = &shared->exports[0][i];
        CHECK(!sem_init(&export->made, 1, 0) && !sem_init(&export->closed, 1, 0) && !sem_init(&export->ended, 1, 0));
    }
    for (int rank = 0; rank < RANKS; rank++) {
        char text[4];
        snprintf(text, sizeof text, "%d", rank);
        CHECK(setenv("RANK", text, 1) == 0);
        if ((pids[rank] = fork()) == 0) {
            alarm(60);
            take_part(rank);
            exit(0);
        }
        CHECK(pids[rank] > 0);
    }
    for (int rank = 0; rank < RANKS; rank++) CHECK(waitpid(pids[rank], &status, 0) == pids[rank] && status == 0);
    printf("%d\n", RANKS * rounds * (IMPORTERS + 1));
    return 0;
}
