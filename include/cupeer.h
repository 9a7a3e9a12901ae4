/*
 * cupeer.h: the functions of libcupeer.so that a program may call on purpose.
 *
 * Find them with dlsym(RTLD_DEFAULT, "cupeer_mark"): if the library is not preloaded, they do not exist,
 * and your program goes on without. Made from src/preload/entry/c_api.rs by scripts/header.
 */

#ifndef CUPEER_H
#define CUPEER_H

#include <stddef.h>
#include <stdint.h>

/*
 What a rule found in a call. All texts are valid only until the callback returns.
 */
typedef struct {
  /*
   The size of this structure: later versions may append members.
   */
  size_t size;
  /*
   The name of the rule, such as "ipc-flags": see `cupeer list rules`.
   */
  const char *rule;
  /*
   "error", "warning" or "note".
   */
  const char *severity;
  /*
   "certain", "stale" (it rests on what a process that has ended left behind) or "inferred".
   */
  const char *confidence;
  /*
   The driver's function.
   */
  const char *function;
  /*
   What the function returned.
   */
  int result;
  /*
   What was found, with its values.
   */
  const char *message;
  /*
   What to do.
   */
  const char *hint;
  /*
   The whole finding as a JSON object, with the call's arguments and the objects it is about.
   */
  const char *json;
} cupeer_finding;

/*
 A function that receives findings. It runs in the thread that made the call, after the driver has answered
 and before the call returns; it may call the driver, and must return.
 */
typedef void (*cupeer_finding_callback)(const cupeer_finding *finding, void *data);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Returns the version of cupeer, such as "0.1.0". The text is never freed.
 */
const char *cupeer_version(void);

/*
 Writes `text` into the log and the record, to mark a place in them.

 Before the first recorded call of the process the record has not begun; the last 128 marks are kept for it until then.

 Returns 1 if it was written to either or is kept, 0 if there is neither or it cannot be written, and -1 if `text` is NULL.

 # Safety

 `text` is NULL or ends in NUL.
 */
int cupeer_mark(const char *text);

/*
 Calls `callback` with each finding from now on, and with `data`; it replaces the previous callback, and NULL removes
 it. Only the first ten findings per rule and caller from then on are reported: giving the same callback again, as at the
 start of each test, counts anew. The previous callback may still be running, or just be called, in another thread.

 Returns 1 if rules are checked (`cupeer run --check`, CUPEER_CHECK), or 0 if they are not and the callback will
 never be called.

 # Safety

 Any thread can call the callback, with `data`, from now on: see above for when it is replaced.
 */
int cupeer_on_finding(cupeer_finding_callback callback,
                      void *data);

/*
 Arms a fault plan in this process, for a block of a test: rules as `cupeer run --inject` takes them, separated by
 semicolons or newlines. They are tried after those already armed. Forked children inherit the plan. Some kilobytes of
 each plan stay until the process ends, because a call may be using it: arm a plan per block of a test, not per call.

 Returns the number of the plan, above 0, or 0 if it is not valid: then `message`, if not NULL, receives the
 reason, with its column, in at most `size` bytes including the NUL. The plan's text may be freed at once.

 # Safety

 `plan` is NULL or ends in NUL; `message` is NULL or has `size` writable bytes.
 */
int cupeer_arm(const char *plan,
               char *message,
               size_t size);

/*
 Disarms a plan by the number that `cupeer_arm` returned, and releases calls it holds. If not NULL, `matched` and
 `fired` receive how many calls met the conditions of its rules, and at how many the rules fired, in this process and
 its children.

 Returns 1, or 0 if no such plan is armed.

 # Safety

 `matched` and `fired` are NULL or writable.
 */
int cupeer_disarm(int plan,
                  uint64_t *matched,
                  uint64_t *fired);

/*
 Counts what the rules of a plan have done so far, as `cupeer_disarm` does, and leaves it armed.

 # Safety

 `matched` and `fired` are NULL or writable.
 */
int cupeer_counts(int plan, uint64_t *matched, uint64_t *fired);

/*
 Releases calls of this process that hang under a label (`hang=LABEL`), now and in future, by rules that are armed now.

 Returns how many calls hang there, or -1 if `label` is NULL.

 # Safety

 `label` is NULL or ends in NUL.
 */
int cupeer_release(const char *label);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CUPEER_H */
