// The pod's first process: holds the namespaces open, reaps what others leave behind, ends on SIGTERM or SIGINT.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void stop(int signal) {
  (void)signal;
  _exit(0);
}
static void reap(int signal) {
  (void)signal;
  while (waitpid(-1, 0, WNOHANG) > 0) {
  }
}

int main(void) {
  struct sigaction on_stop = {.sa_handler = stop}, on_child = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};
  if (sigaction(SIGTERM, &on_stop, 0) || sigaction(SIGINT, &on_stop, 0) || sigaction(SIGCHLD, &on_child, 0)) return 1;
  for (;;) pause();
}
