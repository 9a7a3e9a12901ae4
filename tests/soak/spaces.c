/* spaces SEED STEPS right|planted nvlink|none [TIMES]: random schedules of the life of virtual memory over 4 processes: it
 * is created, sent as descriptors, imported, mapped, made accessible, unmapped, released, freed, and its owners are
 * killed. This process never reaches the driver: it has the others take turns, one call at a time, so that it knows what
 * each of them has. Where the library checks, it tells of each finding at once, and that has to be what was planted in
 * this call, and nothing else.
 *
 * A `right` schedule breaks no rule. A `planted` one breaks them in all ways, one a call; each process has a rank of its
 * own. `none` says that devices do not reach each other on this machine. Plays schedules of that many steps with TIMES
 * seeds from SEED on; a process may live on in the next one. Prints `planted RULE FUNCTION RANK` for each call that
 * breaks a rule, and at last how many steps it took; exits with 1 where the library said otherwise. */
#include "spaces_actor.h"
#include <signal.h>

/* Whether the rules are checked. */
static int is_checked(void) {
    const char *level = getenv("CUPEER_CHECK");
    return level && strcmp(level, "off");
}

enum { GRANULE = 2 << 20, MAPPINGS = 8, DESCRIPTORS = 6, TYPE_NONE = 0, TYPE_DESCRIPTOR = 1 };
enum { INVALID_VALUE = 1, INVALID_DEVICE = 101, NOT_SUPPORTED = 801, UNKNOWN = 999 };
typedef unsigned long long Bytes;

static struct actor {
    pid_t pid;
    int link, rank;
    struct handle {
        int is_known, references, mappings, types, device, is_imported;
        Bytes size, number;
    } handles[HANDLES];
    struct place {
        Bytes at, size; /* 0 where there is none */
    } places[PLACES];
    struct mapping {
        Bytes at, size;
        int handle, is_touched; /* by cuMemSetAccess, also where that failed */
    } mappings[MAPPINGS];
    struct descriptor {
        int is_open, number, device;
        Bytes size;
    } descriptors[DESCRIPTORS];
    struct told {
        const char *rule, *function;
        int count;
    } told[16];
} actors[ACTORS];
static int plants, is_apart, is_early, ranks, wrong;

static int below(int limit) { return rand() % limit; }
static int is_there(const struct handle *handle) { return handle->references > 0 || handle->mappings > 0; }
/* Whether its number can be used: also while it is only mapped, if the driver does not give it out again. */
static int is_alive(const struct handle *handle) { return handle->references > 0 || (!is_early && handle->mappings > 0); }
static int touch(Bytes a, Bytes size, Bytes b, Bytes other) { return size && other && a < b + other && b < a + size; }

/* Some element that fits, or NULL. */
#define SOME(array, one, fits)                                                                                         \
    ({                                                                                                                 \
        int all_ = sizeof(array) / sizeof *(array), first_ = below(all_), at_ = -1;                                    \
        for (int i_ = 0; i_ < all_ && at_ < 0; i_++) {                                                                 \
            __typeof__(&(array)[0]) one = &(array)[(first_ + i_) % all_];                                              \
            if (fits) at_ = (first_ + i_) % all_;                                                                      \
        }                                                                                                              \
        at_ < 0 ? NULL : &(array)[at_];                                                                                \
    })

static void planted(const struct actor *who, const char *rule, const char *function) {
    dprintf(1, "planted %s %s %d\n", rule, function, who->rank);
    wrong++;
}

static struct answer order(struct actor *who, struct order order) {
    struct answer answer;
    CHECK(send(who->link, &order, sizeof order, MSG_NOSIGNAL) == sizeof order);
    CHECK(recv(who->link, &answer, sizeof answer, 0) == sizeof answer);
    return answer;
}

/* Of one rule and caller the first ten are told. */
static int is_told(struct actor *who, const char *rule, const char *function) {
    for (struct told *told = who->told;; told++) {
        CHECK(told < who->told + 16);
        if (!told->rule) *told = (struct told){rule, function, 0};
        if (!strcmp(told->rule, rule) && !strcmp(told->function, function)) return told->count++ < 10;
    }
}

enum { PERHAPS, CERTAINLY };
/* An order that breaks a rule, or none: what it has to return, and what has to be found. A call that fails without a rule
 * may be explained. */
static struct answer expect(struct actor *who, struct order what, int result, const char *rule, const char *function,
                            int how) {
    struct answer answer = order(who, what);
    int is_found = 0, is_wanted = rule && is_checked() && is_told(who, rule, function), is_bad = 0;
    for (int i = 0; i < answer.count; i++) {
        int is_it = !strcmp(answer.found[i].rule, rule ? rule : "call-failed");
        is_found |= is_it;
        is_bad |= !is_it || (rule && how == CERTAINLY && !answer.found[i].is_certain);
    }
    if (answer.result != result || is_bad || (is_wanted && !is_found)) {
        fprintf(stderr, "%s (order %d): %s was to be found and %d returned; %d was, %d found, first %s%s\n",
                function ? function : "", what.op, rule ? rule : "nothing", result, answer.result, answer.count,
                answer.found[0].rule, answer.found[0].is_certain ? ", certain" : "");
        exit(1);
    }
    if (rule) planted(who, rule, function);
    return answer;
}
static struct answer right(struct actor *who, struct order what) { return expect(who, what, 0, NULL, NULL, 0); }

/* What is mapped is gone: nobody could use it if nobody was given access. */
static void gone(struct actor *who, struct mapping *mapping) {
    if (!mapping->is_touched) planted(who, "vmm-no-access", "cuMemMap");
    who->handles[mapping->handle].mappings--;
    mapping->size = 0;
}

static void begin(struct actor *who) {
    int both[2], self = (int)(who - actors);
    char rank[16];
    memset(who, 0, sizeof *who);
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, both) == 0);
    snprintf(rank, sizeof rank, "%d", who->rank = ranks++);
    if (plants) CHECK(setenv("RANK", rank, 1) == 0);
    if ((who->pid = fork()) == 0) {
        for (int other = 0; other < ACTORS; other++)
            if (actors[other].pid > 0) close(actors[other].link);
        close(both[0]);
        alarm(300);
        act(self, both[1]);
    }
    CHECK(who->pid > 0);
    close(both[1]);
    who->link = both[0];
}

static void finish(struct actor *who, int is_killed) {
    struct order leave = {.op = LEAVE};
    if (is_killed) CHECK(kill(who->pid, SIGKILL) == 0);
    else CHECK(send(who->link, &leave, sizeof leave, 0) == sizeof leave);
    CHECK(waitpid(who->pid, NULL, 0) == who->pid);
    for (int i = 0; i < MAPPINGS; i++)
        if (who->mappings[i].size) gone(who, &who->mappings[i]);
    close(who->link);
    memset(who, 0, sizeof *who);
}

#define HANDLE(handle) ((int)((handle) - who->handles))
static void access_of(struct actor *who, struct mapping *mapping) {
    int home = who->handles[mapping->handle].device, device = is_apart ? home : below(2);
    right(who, (struct order){.op = ACCESS, .at = mapping->at, .size = mapping->size, .count = 1 + below(2), .home = home,
                              .device = device, .rights = below(5) ? 3 : 1});
    mapping->is_touched = 1;
}

static int is_free(const struct actor *who, Bytes at, Bytes size) {
    for (int i = 0; i < MAPPINGS; i++)
        if (touch(who->mappings[i].at, who->mappings[i].size, at, size)) return 0;
    return 1;
}

static void unmap(struct actor *who, struct mapping *mapping) {
    right(who, (struct order){.op = UNMAP, .at = mapping->at, .size = mapping->size});
    gone(who, mapping);
}

static void map(struct actor *who) {
    struct handle *handle = SOME(who->handles, it, is_alive(it));
    struct mapping *mapping = SOME(who->mappings, it, it->size == 0);
    struct place *place = SOME(who->places, it, handle && it->size >= handle->size);
    if (!handle || !mapping || !place) return;
    Bytes at = place->at + (Bytes)below((int)((place->size - handle->size) / GRANULE) + 1) * GRANULE;
    if (!is_free(who, at, handle->size)) return;
    right(who, (struct order){.op = MAP, .at = at, .size = handle->size, .handle = HANDLE(handle)});
    *mapping = (struct mapping){at, handle->size, HANDLE(handle), 0};
    handle->mappings++;
    if (!plants || below(4)) access_of(who, mapping);
}

static void share(struct actor *who, struct descriptor *mine) {
    struct actor *to = &actors[below(ACTORS)];
    struct descriptor *theirs = SOME(to->descriptors, it, !it->is_open && it != mine);
    if (!theirs) return;
    *theirs = *mine;
    if (to == who) {
        theirs->number = (int)right(who, (struct order){.op = DUP, .number = mine->number}).value;
        return;
    }
    right(who, (struct order){.op = SEND, .number = mine->number, .to = (int)(to - actors)});
    theirs->number = (int)right(to, (struct order){.op = RECEIVE}).value;
}

/* A handle is another one's if the driver gave its number out again. */
static void numbered(struct actor *who, struct handle *handle, Bytes number) {
    for (struct handle *other = who->handles; other < who->handles + HANDLES; other++)
        if (other->number == number) other->is_known = 0;
    handle->is_known = 1;
    handle->number = number;
}

static void import(struct actor *who, const struct descriptor *mine) {
    struct handle *handle = SOME(who->handles, it, !is_there(it));
    if (!handle) return;
    Bytes number = right(who, (struct order){.op = IMPORT, .handle = HANDLE(handle), .number = mine->number}).value;
    *handle = (struct handle){1, 1, 0, TYPE_NONE, mine->device, 1, mine->size, 0};
    numbered(who, handle, number);
}

/* Gives all back, in a right order. */
static void tidy(struct actor *who) {
    for (int i = 0; i < MAPPINGS; i++)
        if (who->mappings[i].size) unmap(who, &who->mappings[i]);
    for (struct handle *handle = who->handles; handle < who->handles + HANDLES; handle++)
        for (; handle->references; handle->references--)
            right(who, (struct order){.op = RELEASE, .handle = HANDLE(handle)});
    for (struct place *place = who->places; place < who->places + PLACES; place++) {
        if (place->size) right(who, (struct order){.op = FREE, .at = place->at, .size = place->size});
        place->size = 0;
    }
    for (struct descriptor *mine = who->descriptors; mine < who->descriptors + DESCRIPTORS; mine++) {
        if (mine->is_open) right(who, (struct order){.op = CLOSE, .number = mine->number});
        mine->is_open = 0;
    }
}

#include "spaces_plant.h"

static void step(void) {
    struct actor *who = &actors[below(ACTORS)];
    struct handle *handle = SOME(who->handles, it, it->references > 0), *fresh = SOME(who->handles, it, !is_there(it));
    struct mapping *mapping = SOME(who->mappings, it, it->size);
    struct descriptor *mine = SOME(who->descriptors, it, it->is_open), *none = SOME(who->descriptors, it, !it->is_open);
    struct place *place = SOME(who->places, it, it->size), *room = SOME(who->places, it, !it->size);
    int dice = below(100);
    if (plants && below(3) == 0) {
        for (int before = wrong, tries = 0; wrong == before && tries < 4; tries++) plant(who);
    } else if (dice < 14 && fresh) {
        *fresh = (struct handle){1, 1, 0, below(4) ? TYPE_DESCRIPTOR : TYPE_NONE, below(2), 0, (Bytes)(1 + below(3)) * GRANULE, 0};
        numbered(who, fresh, right(who, (struct order){.op = CREATE, .handle = HANDLE(fresh), .size = fresh->size,
                                                       .types = fresh->types, .device = fresh->device}).value);
    } else if (dice < 26 && room) {
        room->size = (Bytes)(1 + below(6)) * GRANULE;
        room->at = right(who, (struct order){.op = RESERVE, .size = room->size}).value;
    } else if (dice < 38 && handle && none && handle->types == TYPE_DESCRIPTOR) {
        *none = (struct descriptor){1, 0, handle->device, handle->size};
        none->number = (int)right(who, (struct order){.op = EXPORT, .handle = HANDLE(handle), .types = TYPE_DESCRIPTOR}).value;
        if (below(3)) share(who, none);
    } else if (dice < 44 && mine) {
        share(who, mine);
    } else if (dice < 56 && mine) {
        import(who, mine);
    } else if (dice < 59 && mine) {
        right(who, (struct order){.op = CLOSE, .number = mine->number});
        mine->is_open = 0;
    } else if (dice < 74) {
        map(who);
    } else if (dice < 79 && mapping) {
        access_of(who, mapping);
    } else if (dice < 84 && mapping) {
        unmap(who, mapping);
    } else if (dice < 87 && mapping) {
        struct handle *of = &who->handles[mapping->handle];
        Bytes number = right(who, (struct order){.op = RETAIN, .handle = mapping->handle, .at = mapping->at + below(GRANULE)}).value;
        CHECK(is_early || number == of->number);
        numbered(who, of, number);
        of->references++;
    } else if (dice < 94 && handle) {
        right(who, (struct order){.op = RELEASE, .handle = HANDLE(handle)});
        handle->references--;
    } else if (dice < 98 && place && is_free(who, place->at, place->size)) {
        right(who, (struct order){.op = FREE, .at = place->at, .size = place->size});
        place->size = 0;
    } else if (dice == 99 && below(3) == 0) {
        finish(who, below(2));
        begin(who);
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 5 || argc == 6);
    int seed = atoi(argv[1]), steps = atoi(argv[2]), times = argc == 6 ? atoi(argv[5]) : 1;
    plants = strcmp(argv[3], "planted") == 0;
    is_apart = strncmp(argv[4], "none", 4) == 0;
    is_early = strstr(argv[4], "early") != NULL;
    alarm(300);
    for (int actor = 0; actor < ACTORS; actor++)
        CHECK(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, boxes[actor]) == 0);
    for (int actor = 0; actor < ACTORS; actor++) begin(&actors[actor]);
    for (int time = 0; time < times; time++) {
        srand((unsigned)(seed + time));
        for (int i = 0; i < steps; i++) step();
        for (struct actor *who = actors; who < actors + ACTORS; who++) {
            /* What is left is nobody's fault, but for what nobody could use. */
            if (time + 1 == times || below(4) == 0) finish(who, below(4) == 0);
            else tidy(who);
            if (time + 1 < times && !who->pid) begin(who);
        }
    }
    printf("%d steps, %d wrong\n", steps * times, wrong);
    return 0;
}
