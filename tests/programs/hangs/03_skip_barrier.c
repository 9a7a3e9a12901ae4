/* One rank has fewer samples, leaves its loop one step earlier and goes to the statistics,
 * while the others are in the barrier of the last step.
 * After https://github.com/argonne-lcf/dlio_benchmark/pull/339 (uneven number of steps, barrier deadlock)
 * and https://github.com/pytorch/pytorch/issues/54059. */
#include "coll.h"

struct shard { int samples, batch; };

static NOINLINE double read_batch(struct shard *s, int step)
{
    usleep(20000);
    return s->batch * 0.5 + step;
}

static NOINLINE double run_epoch(struct shard *s)
{
    double loss = 0;
    int steps = s->samples / s->batch;
    for (int i = 0; i < steps; i++) {
        loss += read_batch(s, i);
        coll_barrier(&coll_world);
    }
    return loss;
}

static NOINLINE void report(double loss)
{
    double all[COLL_MAX];
    coll_allgather(&coll_world, loss, all);
    if (coll_rank == 0) printf("losses %g %g\n", all[0], all[1]);
}

int main(int argc, char **argv)
{
    coll_init(argv, 4);
    struct shard s = { coll_rank == 2 ? 95 : 97, 16 };
    for (int epoch = 0; epoch < 3; epoch++) {
        double loss = run_epoch(&s);
        report(loss);
    }
    return 0;
}
