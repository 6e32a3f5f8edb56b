/* One function a verb: argv[0] is the verb. Answers the exit code: 0 ok, 1 failure, 2 usage. */
#ifndef CMD_H
#define CMD_H

int cmd_run(int argc, char **argv);
int cmd_scenario(int argc, char **argv);
int cmd_estimate(int argc, char **argv);
int cmd_policies(int argc, char **argv);
int cmd_trace(int argc, char **argv);
int cmd_replay(int argc, char **argv);

#define EXIT_OK 0
#define EXIT_FAILED 1
#define EXIT_USAGE 2

#endif
