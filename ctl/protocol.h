/*
 * The control protocol between vanillactl and the master over RUNTIME_DIR/control.sock (SOCK_STREAM).
 * The client sends one line, COMMAND [ARGUMENT] LF, at most CONTROL_LINE_MAX octets.  The server answers with lines:
 * the first is "ok" or "refused: REASON"; the lines that follow are text for people; then it closes.
 */
#ifndef VANILLA_CTL_PROTOCOL_H
#define VANILLA_CTL_PROTOCOL_H

#define CONTROL_LINE_MAX 1024
#define CONTROL_SOCKET "control.sock"
#define CONTROL_SEGMENT "stats.shm"

/* CONTROL(name, argument, meaning) */
#define CONTROL_COMMANDS                                            \
    CONTROL(ping, "", "answers when the master's loop runs")        \
    CONTROL(version, "", "the running binary's version")            \
    CONTROL(reload, "", "for a later version: always refused")      \
    CONTROL(drain, "", "stop accepting, finish what is begun, end") \
    CONTROL(stop, "[now]", "as drain; with now: end at once")       \
    CONTROL(set, "POOL.max_inflight=N", "change a pool's max_inflight while running")

#endif
