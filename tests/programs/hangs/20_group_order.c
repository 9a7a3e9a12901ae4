/* A 2 x 2 grid of ranks with row groups {0,1}, {2,3} and column groups {0,2}, {1,3}. Each rank decides by its own
 * buffer which reduction comes first: ranks 0 and 3 do the row first, ranks 1 and 2 the column.
 * After https://github.com/NVIDIA/cuDecomp/pull/98 (row and column communicators, local decision, deadlock)
 * and https://github.com/pytorch/pytorch/pull/119250 (order of communicators). */
#include "coll.h"

static coll_group row, col;

static NOINLINE double reduce_rows(double x) { return coll_allreduce_sum(&row, x); }
static NOINLINE double reduce_cols(double x) { return coll_allreduce_sum(&col, x); }

static NOINLINE double transpose_step(int step)
{
    double pencil = coll_rank + step, s = 0;
    int row_ready_first = step < 3 || coll_rank == 0 || coll_rank == 3;
    usleep(30000);
    if (row_ready_first) {
        s += reduce_rows(pencil);
        s += reduce_cols(pencil);
    } else {
        s += reduce_cols(pencil);
        s += reduce_rows(pencil);
    }
    return s;
}

int main(int argc, char **argv)
{
    coll_init(argv, 4);
    int r = coll_rank / 2, c = coll_rank % 2;
    row = coll_make_group(10 + r, 2, (int[]){ 2 * r, 2 * r + 1 });
    col = coll_make_group(20 + c, 2, (int[]){ c, c + 2 });
    double s = 0;
    for (int step = 0; step < 1000; step++) s += transpose_step(step);
    return s > 0;
}
