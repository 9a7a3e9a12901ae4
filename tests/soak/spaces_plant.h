/* What `spaces.c` plants: one call that breaks a rule, or fails without one. What it needs is chosen at random; where that
 * is not there, nothing is done. */

enum plant {
    EXPORT_PLAIN, EXPORT_IMPORTED, EXPORT_WINDOWS, ACCESS_NO_DEVICE, ACCESS_APART, IMPORT_CLOSED, IMPORT_NUMBER,
    IMPORT_REFUSED, IMPORT_OTHER, CREATE_ODD, RESERVE_ODD, MAP_ODD, MAP_PART, MAP_MORE, MAP_OFFSET, MAP_TWICE, FREE_IN_USE,
    UNMAP_PART, ACCESS_PART, RELEASE_MAPPED, RELEASE_GONE, NO_RULE_FREE_PART, NO_RULE_MAP_BEYOND, NO_RULE_RETAIN,
    EXPORT_GONE, MAP_GONE, PLANTS
};

/* Whether no descriptor of an actor has this number, as far as is known: others than these are below the first one. */
static int is_closed(const struct actor *who, int number) {
    for (int i = 0; i < DESCRIPTORS; i++)
        if (who->descriptors[i].is_open && who->descriptors[i].number == number) return 0;
    return 1;
}

static void plant_of_handles(struct actor *who, enum plant form, struct handle *handle) {
    struct order what = {.op = EXPORT, .handle = HANDLE(handle), .types = form == EXPORT_WINDOWS ? 2 : TYPE_DESCRIPTOR};
    expect(who, what, INVALID_VALUE, "vmm-handle-type", "cuMemExportToShareableHandle", CERTAINLY);
}

static void plant_of_descriptors(struct actor *who, enum plant form) {
    struct order what = {.op = IMPORT, .number = -1};
    int how = CERTAINLY;
    struct actor *other = &actors[below(ACTORS)];
    struct descriptor *mine = SOME(who->descriptors, it, it->is_open), *theirs = SOME(other->descriptors, it, it->is_open);
    if (form == IMPORT_CLOSED) {
        if (!mine) return;
        right(who, (struct order){.op = CLOSE, .number = what.number = mine->number});
        mine->is_open = 0;
    } else if (form == IMPORT_NUMBER) {
        /* What is no descriptor of memory here may be something else. */
        if (!theirs || !is_closed(who, theirs->number)) return;
        what.number = theirs->number;
        how = PERHAPS;
    } else if (form == IMPORT_OTHER) {
        what.number = (int)right(who, (struct order){.op = OPEN_OTHER}).value;
        how = PERHAPS;
    }
    struct handle *fresh = SOME(who->handles, it, !is_there(it));
    if (!fresh) return;
    what.handle = HANDLE(fresh);
    expect(who, what, UNKNOWN, "vmm-descriptor", "cuMemImportFromShareableHandle", how);
    if (form == IMPORT_OTHER) right(who, (struct order){.op = CLOSE, .number = what.number});
}

/* A call about something mapped. Access that was refused was thought of all the same. */
static void plant_of_mappings(struct actor *who, enum plant form, struct mapping *mapping) {
    struct handle *handle = &who->handles[mapping->handle];
    struct order what = {.op = ACCESS, .at = mapping->at, .size = mapping->size, .count = 1, .device = handle->device,
                         .home = handle->device, .rights = 3};
    if (form == ACCESS_NO_DEVICE || form == ACCESS_APART) {
        int is_none = form == ACCESS_NO_DEVICE;
        if (!is_none && !is_apart) return;
        what.count = 1 + below(2);
        what.device = is_none ? 2 + below(9) : 1 - handle->device;
        mapping->is_touched = 1;
        expect(who, what, is_none ? INVALID_VALUE : INVALID_DEVICE, "vmm-unreachable-device", "cuMemSetAccess",
               is_none || !handle->is_imported ? CERTAINLY : PERHAPS);
        return;
    }
    if (mapping->size == GRANULE) return;
    what.size = GRANULE;
    what.at += below(2) ? mapping->size - GRANULE : 0;
    what.op = form == ACCESS_PART ? ACCESS : UNMAP;
    mapping->is_touched |= form == ACCESS_PART;
    expect(who, what, INVALID_VALUE, "vmm-part-of-mapping", form == ACCESS_PART ? "cuMemSetAccess" : "cuMemUnmap", CERTAINLY);
}

static void plant_of_maps(struct actor *who, enum plant form, struct handle *handle, struct place *place) {
    struct mapping *mapping = SOME(who->mappings, it, it->size);
    struct order what = {.op = MAP, .handle = HANDLE(handle), .at = place->at, .size = handle->size};
    const char *rule = "vmm-partial-mapping";
    int result = NOT_SUPPORTED;
    if (form == MAP_ODD) {
        what.at += 4096;
        rule = "vmm-granularity";
        result = INVALID_VALUE;
    } else if (form == MAP_PART) {
        if (handle->size == GRANULE) return;
        what.size -= GRANULE;
    } else if (form == MAP_MORE) {
        what.size += GRANULE;
    } else if (form == MAP_OFFSET) {
        what.offset = GRANULE;
    } else if (form == MAP_TWICE) {
        if (!mapping) return;
        what.at = mapping->at + (Bytes)below((int)(mapping->size / GRANULE)) * GRANULE;
        rule = "vmm-mapped-twice";
        result = INVALID_VALUE;
    } else {
        /* Beyond the end there may be another reservation. */
        if (handle->size == GRANULE || !is_free(who, place->at + place->size - GRANULE, handle->size)) return;
        what.at = place->at + place->size - GRANULE;
        rule = NULL;
        result = INVALID_VALUE;
    }
    expect(who, what, result, rule, "cuMemMap", CERTAINLY);
}

static void plant_of_places(struct actor *who, enum plant form, struct place *place) {
    int is_used = !is_free(who, place->at, place->size);
    struct order what = {.op = FREE, .at = place->at, .size = place->size};
    if (form == FREE_IN_USE && is_used) {
        expect(who, what, INVALID_VALUE, "vmm-reservation-in-use", "cuMemAddressFree", CERTAINLY);
    } else if (form == NO_RULE_FREE_PART && !is_used && place->size > GRANULE) {
        what.size = GRANULE;
        expect(who, what, INVALID_VALUE, NULL, NULL, 0);
    } else if (form == NO_RULE_RETAIN && !is_used) {
        what.op = RETAIN;
        expect(who, what, INVALID_VALUE, NULL, NULL, 0);
    }
}

static void plant(struct actor *who) {
    enum plant form = (enum plant)below(PLANTS);
    struct handle *usable = SOME(who->handles, it, is_alive(it)), *gone = SOME(who->handles, it, it->is_known && !is_there(it));
    struct handle *plain = SOME(who->handles, it, is_alive(it) && !it->is_imported && it->types == TYPE_NONE);
    struct handle *imported = SOME(who->handles, it, is_alive(it) && it->is_imported);
    struct handle *own = SOME(who->handles, it, is_alive(it) && it->types == TYPE_DESCRIPTOR);
    struct handle *kept = SOME(who->handles, it, it->is_known && !it->references && it->mappings);
    struct mapping *mapping = SOME(who->mappings, it, it->size);
    struct place *place = SOME(who->places, it, it->size);
    struct order what = {.op = RELEASE, .size = GRANULE};
    switch (form) {
    case EXPORT_PLAIN: return plain ? plant_of_handles(who, form, plain) : (void)0;
    case EXPORT_IMPORTED: return imported ? plant_of_handles(who, form, imported) : (void)0;
    case EXPORT_WINDOWS: return own ? plant_of_handles(who, form, own) : (void)0;
    case IMPORT_CLOSED:
    case IMPORT_NUMBER:
    case IMPORT_REFUSED:
    case IMPORT_OTHER: return plant_of_descriptors(who, form);
    case ACCESS_NO_DEVICE:
    case ACCESS_APART:
    case UNMAP_PART:
    case ACCESS_PART: return mapping ? plant_of_mappings(who, form, mapping) : (void)0;
    case MAP_ODD:
    case MAP_PART:
    case MAP_MORE:
    case MAP_OFFSET:
    case MAP_TWICE:
    case NO_RULE_MAP_BEYOND: return usable && place ? plant_of_maps(who, form, usable, place) : (void)0;
    case FREE_IN_USE:
    case NO_RULE_FREE_PART:
    case NO_RULE_RETAIN: return place ? plant_of_places(who, form, place) : (void)0;
    case CREATE_ODD:
    case RESERVE_ODD:
        what.op = form == CREATE_ODD ? CREATE : RESERVE, what.size += 512u << below(12);
        expect(who, what, INVALID_VALUE, "vmm-granularity", form == CREATE_ODD ? "cuMemCreate" : "cuMemAddressReserve", CERTAINLY);
        return;
    case RELEASE_MAPPED:
    case RELEASE_GONE:
        if (form == RELEASE_GONE) kept = gone;
        if (!kept) return;
        what.handle = HANDLE(kept);
        expect(who, what, INVALID_VALUE, "vmm-released-twice", "cuMemRelease", CERTAINLY);
        return;
    case EXPORT_GONE:
    case MAP_GONE:
        if (!gone || !place) return;
        what = (struct order){.op = form == MAP_GONE ? MAP : EXPORT, .handle = HANDLE(gone), .at = place->at,
                              .size = gone->size, .types = TYPE_DESCRIPTOR};
        if (form == MAP_GONE && !is_free(who, what.at, what.size)) return;
        expect(who, what, INVALID_VALUE, "vmm-handle-released",
               form == MAP_GONE ? "cuMemMap" : "cuMemExportToShareableHandle", CERTAINLY);
        return;
    default: return;
    }
}
