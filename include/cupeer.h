/*
 * cupeer.h: the functions of libcupeer.so that a program may call on purpose.
 *
 * Find them with dlsym(RTLD_DEFAULT, "cupeer_mark"): where the library is not preloaded, they are not
 * there, and your program goes on without. Made from src/preload/c_api.rs by scripts/header.
 */

#ifndef CUPEER_H
#define CUPEER_H

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

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CUPEER_H */
