// The floor for a look: reads the files that a look reads, and does nothing with them.
//   look PLAN ROUNDS kept|anew
// PLAN has a file on each line. "k PATH" stays open and is read from its start; "f PATH" is opened, read and closed, as
// lists of processes must be. With "anew" every file is opened, read and closed. Prints the microseconds of each round, and of CPU.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct file {
  char *path;
  int is_kept;
  int fd;
};

static char buffer[1 << 16];

static double now_us(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void must(ssize_t result, const char *path) {
  if (result >= 0) return;
  perror(path);
  exit(1);
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  FILE *plan = fopen(argv[1], "r");
  if (plan == NULL) return 2;
  int rounds = atoi(argv[2]);
  int anew = strcmp(argv[3], "anew") == 0;
  struct file *files = NULL;
  int count = 0;
  char line[8192];
  while (fgets(line, sizeof line, plan)) {
    line[strcspn(line, "\n")] = 0;
    files = realloc(files, (count + 1) * sizeof *files);
    files[count++] = (struct file){strdup(line + 2), line[0] == 'k' && !anew, -1};
  }
  for (int round = 0; round < rounds; round++) {
    double began = now_us(CLOCK_MONOTONIC), spent = now_us(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < count; i++) {
      struct file *file = &files[i];
      if (file->fd < 0) file->fd = open(file->path, O_RDONLY | O_CLOEXEC);
      must(file->fd, file->path);
      must(pread(file->fd, buffer, sizeof buffer, 0), file->path);
      if (file->is_kept) continue;
      close(file->fd);
      file->fd = -1;
    }
    spent = now_us(CLOCK_PROCESS_CPUTIME_ID) - spent;
    printf("%.1f %.1f\n", now_us(CLOCK_MONOTONIC) - began, spent);
  }
  return 0;
}
