/*
 * cupeer.h: the functions of libcupeer.so that a program may call on purpose.
 *
 * Find them with dlsym(RTLD_DEFAULT, "cupeer_mark"): where the library is not preloaded, they are not
 * there, and your program goes on without. Made from src/preload/entry/c_api.rs by scripts/header.
 */

#ifndef CUPEER_H
#define CUPEER_H

#include <stddef.h>
#include <stdint.h>

/*
 What a rule has found in a call. All texts are valid only until the function returns that is told of it.
 */
typedef struct {
  /*
   The size of this structure: later versions may have more at its end.
   */
  size_t size;
  /*
   The rule's name, such as "ipc-flags": `cupeer list rules` has them all.
   */
  const char *rule;
  /*
   "error", "warning" or "note".
   */
  const char *severity;
  /*
   "certain", "stale" (it rests on what a process left behind that has ended) or "inferred".
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
   All of it, with the call's arguments and what it is about, as a JSON object.
   */
  const char *json;
} cupeer_finding;

/*
 A function that is told of findings. It is called in the thread that made the call, after the driver has answered
 and before the call returns; it may call the driver, and must return.
 */
typedef void (*cupeer_finding_callback)(const cupeer_finding *finding, void *data);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 The version of cupeer, such as "0.1.0". The text is never freed.
 */
const char *cupeer_version(void);

/*
 Puts your text into the log and the record, to find a place in them again.

 Returns 1 where it was written to either, 0 where there is neither or it cannot be written, and -1 where
 `text` is NULL.

 # Safety

 `text` is NULL or ends in NUL.
 */
int cupeer_mark(const char *text);

/*
 Tells a function of what rules find from now on, in place of the one before; NULL tells nobody. `data` is passed
 on to it. The first ten findings of a rule and caller are told. A call of the one before may still be under way, or
 begin at this moment, in another thread.

 Returns 1 where rules are checked (`cupeer run --check`, CUPEER_CHECK), 0 where they are not and the function will
 never be called.

 # Safety

 The function can be called, with `data`, by any thread, from now on: see above for when it is replaced.
 */
int cupeer_on_finding(cupeer_finding_callback callback,
                      void *data);

/*
 Arms a plan of faults in this process, for a block of a test: rules as `cupeer run --inject` takes them, separated by
 semicolons or newlines. Its rules are looked at behind those that are armed already. Forked children have it as well.
 Some kilobytes of each plan stay until the process ends, because a call may be looking at it: arm one for a block of a
 test, and not for each call.

 Returns the number of the plan, above 0, or 0 where it is not understood: then `message`, where it is not NULL, has
 the reason in at most `size` bytes, with its column, ended by NUL. The plan's text may be freed at once.

 # Safety

 `plan` is NULL or ends in NUL; `message` is NULL or has `size` writable bytes.
 */
int cupeer_arm(const char *plan,
               char *message,
               size_t size);

/*
 Takes back a plan that `cupeer_arm` gave the number of, and lets go what hangs by it. Where they are not NULL, `matched`
 and `fired` get how many calls met the conditions of its rules, and at how many they fired, in this process and its
 children.

 Returns 1, or 0 where no such plan is armed.

 # Safety

 `matched` and `fired` are NULL or writable.
 */
int cupeer_disarm(int plan,
                  uint64_t *matched,
                  uint64_t *fired);

/*
 What the rules of a plan have done so far: see `cupeer_disarm`.

 # Safety

 `matched` and `fired` are NULL or writable.
 */
int cupeer_counts(int plan, uint64_t *matched, uint64_t *fired);

/*
 Lets go what hangs under a label (`hang=LABEL`) in this process, now and from now on, by rules that are armed now.

 Returns how many calls hang there, or -1 where `label` is NULL.

 # Safety

 `label` is NULL or ends in NUL.
 */
int cupeer_release(const char *label);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CUPEER_H */
