/* What runs in the lab's containers, static and small. Arguments, each once, done in this order:
 *   deaf          ignores SIGTERM; without it, SIGTERM ends the program with status 0
 *   name=NAME ends=FILE linger=MS   at SIGTERM appends "NAME told EPOCH_MS" to the file, and so much later "NAME ends ..."
 *   lock=FILE     holds a lock on it to its end; if somebody else does, says so in FILE.twice
 *   hold=MIB      takes so much at once
 *   beat=FILE     from now on writes the monotonic time in ms, a line each 100 ms
 *   when=FILE     waits until it exists
 *   once=FILE     makes it; if it was there, what follows is left out
 *   grow=MIB pace=MIB_PER_S   takes so much at that pace; pace=0: as fast as it can
 *   into=FILE     grows as a file instead (on a tmpfs: shared memory)
 *   quits         ends with status 0
 * Without that it lives on. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MIB (1024L * 1024L)
static const char *beat_file;

static long now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000L + t.tv_nsec / 1000000L;
}

static void rest_ms(long ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
  nanosleep(&t, NULL);
}

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static volatile sig_atomic_t is_told = 0;
static const char *ends_file;

static void end(int signal) {
  (void)signal;
  if (ends_file == NULL) _exit(0);
  is_told = 1;
}

static void note_end(const char *name, const char *what) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  int fd = open(ends_file, O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (fd < 0) fail(ends_file);
  dprintf(fd, "%s %s %ld\n", name, what, t.tv_sec * 1000L + t.tv_nsec / 1000000L);
  fsync(fd);
  close(fd);
}

static const char *text(int argc, char **argv, const char *name) {
  size_t length = strlen(name);
  for (int i = 1; i < argc; i++)
    if (strncmp(argv[i], name, length) == 0 && argv[i][length] == '=') return argv[i] + length + 1;
  return NULL;
}

static int has(int argc, char **argv, const char *name) {
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], name) == 0) return 1;
  return 0;
}

static long number(int argc, char **argv, const char *name) {
  const char *value = text(argc, argv, name);
  return value == NULL ? 0 : atol(value);
}

static void take(long bytes) {
  char *memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("mmap");
  memset(memory, 1, (size_t)bytes);
}

static void append_line(const char *file, long value) {
  int fd = open(file, O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (fd < 0) fail(file);
  dprintf(fd, "%ld\n", value);
  close(fd);
}

static void *beat(void *unused) {
  (void)unused;
  int fd = open(beat_file, O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (fd < 0) fail(beat_file);
  for (;;) {
    dprintf(fd, "%ld\n", now_ms());
    rest_ms(100);
  }
  return NULL;
}

static void grow(long mib, long pace, const char *into) {
  static char page[MIB];
  memset(page, 1, sizeof page);
  int fd = -1;
  if (into != NULL && (fd = open(into, O_WRONLY | O_CREAT | O_TRUNC, 0644)) < 0) fail(into);
  long start = now_ms();
  for (long done = 0; done < mib; done++) {
    if (fd < 0) take(MIB);
    else if (write(fd, page, sizeof page) != (ssize_t)sizeof page) fail(into);
    if (pace > 0) {
      long due = start + (done + 1) * 1000 / pace - now_ms();
      if (due > 0) rest_ms(due);
    }
  }
}

int main(int argc, char **argv) {
  int is_deaf = has(argc, argv, "deaf");
  ends_file = text(argc, argv, "ends");
  /* As process 1 of its namespace it has no default action. */
  signal(SIGTERM, is_deaf ? SIG_IGN : end);

  const char *lock = text(argc, argv, "lock");
  if (lock != NULL) {
    int fd = open(lock, O_RDWR | O_CREAT, 0644);
    if (fd < 0) fail(lock);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      char twice[4096];
      snprintf(twice, sizeof twice, "%s.twice", lock);
      append_line(twice, now_ms());
    }
  }
  long hold = number(argc, argv, "hold");
  if (hold > 0) take(hold * MIB);
  beat_file = text(argc, argv, "beat");
  pthread_t thread;
  sigset_t none, term;
  sigemptyset(&none);
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  /* It is for the main thread. */
  sigprocmask(SIG_BLOCK, &term, NULL);
  if (beat_file != NULL && pthread_create(&thread, NULL, beat, NULL) != 0) fail("pthread_create");
  sigprocmask(SIG_UNBLOCK, &term, NULL);
  const char *when = text(argc, argv, "when");
  while (when != NULL && access(when, F_OK) != 0) rest_ms(5);
  const char *once = text(argc, argv, "once");
  int fd = once == NULL ? 0 : open(once, O_WRONLY | O_CREAT | O_EXCL, 0644);
  if (fd < 0 && errno != EEXIST) fail(once);
  if (fd >= 0) grow(number(argc, argv, "grow"), number(argc, argv, "pace"), text(argc, argv, "into"));
  if (has(argc, argv, "quits")) return 0;
  const char *name = text(argc, argv, "name");
  /* A signal right before pause() would be missed. */
  sigprocmask(SIG_BLOCK, &term, NULL);
  while (!is_told) sigsuspend(&none);
  note_end(name == NULL ? "?" : name, "told");
  rest_ms(number(argc, argv, "linger"));
  note_end(name == NULL ? "?" : name, "ends");
  return 0;
}
