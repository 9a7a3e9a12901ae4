// The two tracepoints of a call: what a record holds of it. LTTng adds the times.
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER overhead
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng_line.h"
#if !defined(LTTNG_LINE_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define LTTNG_LINE_H
#include <lttng/tracepoint.h>
LTTNG_UST_TRACEPOINT_EVENT(
    overhead, entry, LTTNG_UST_TP_ARGS(const void *, caller, int, device, int, peer),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer_hex(unsigned long, caller, (unsigned long)caller)
                            lttng_ust_field_integer(int, device, device) lttng_ust_field_integer(int, peer, peer)))
LTTNG_UST_TRACEPOINT_EVENT(overhead, exit, LTTNG_UST_TP_ARGS(int, can, int, result),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, can, can)
                                                   lttng_ust_field_integer(int, result, result)))
#endif
#include <lttng/tracepoint-event.h>
