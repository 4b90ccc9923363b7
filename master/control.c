#include "master/control.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/log.h"
#include "master/unixsock.h"

#define CONTROL_MAGIC 0xc0117201u
#define CONTROL_BACKLOG 64
#define CONTROL_ANSWER_MAX 4096
#define CONTROL_GROUPS_MAX 1024

struct control_client {
    struct control *client_control;
    int client_fd; /* -1: a free place */
    struct event *client_event;
    size_t client_len;
    char client_line[CONTROL_LINE_MAX + 1];
};

struct control {
    unsigned magic;
    int control_fd;
    char *control_path;
    struct unixsock_id control_id;
    gid_t control_group;
    control_do *control_handler;
    void *control_context;
    struct event *control_event, *control_pause; /* the second: accepting again after descriptors ran out */
    struct control_client control_clients[CONTROL_CLIENTS_MAX];
};

static void control_accept(evutil_socket_t listener, short what, void *arg);
static void control_resume(evutil_socket_t fd, short what, void *arg);
static bool control_allowed(const struct control *c, int fd, struct ucred *peer);
static void control_admit(struct control *c, int fd);
static void control_read(evutil_socket_t fd, short what, void *arg);
static void control_line(struct control_client *client);
static void control_send(int fd, const char *text);
static void control_leave(struct control_client *client);

static const struct {
    const char *command_name, *command_argument; /* "": takes none; "[X]": may take one */
} control_commands[] = {
#define CONTROL(name, argument, meaning) {#name, argument},
    CONTROL_COMMANDS
#undef CONTROL
};

struct control *control_open(struct event_base *base, const char *path, gid_t group, control_do *handler, void *context,
                             char *why, size_t why_len)
{
    struct control *c = calloc(1, sizeof *c);
    bool out_of_memory;
    unsigned i;

    if (c == NULL) {
        snprintf(why, why_len, "%s", strerror(ENOMEM));
        return NULL;
    }
    c->magic = CONTROL_MAGIC;
    c->control_group = group;
    c->control_handler = handler;
    c->control_context = context;
    for (i = 0; i < CONTROL_CLIENTS_MAX; i++) {
        c->control_clients[i].client_control = c;
        c->control_clients[i].client_fd = -1;
        c->control_clients[i].client_event = event_new(base, -1, 0, control_read, &c->control_clients[i]);
    }
    c->control_path = strdup(path);
    c->control_fd = unixsock_listen(path, 0660, group, CONTROL_BACKLOG, &c->control_id, why, why_len);
    if (c->control_fd >= 0)
        c->control_event = event_new(base, c->control_fd, EV_READ | EV_PERSIST, control_accept, c);
    c->control_pause = evtimer_new(base, control_resume, c);
    out_of_memory = c->control_path == NULL || c->control_pause == NULL || c->control_event == NULL ||
                    event_add(c->control_event, NULL) != 0;
    for (i = 0; i < CONTROL_CLIENTS_MAX; i++)
        out_of_memory = out_of_memory || c->control_clients[i].client_event == NULL;
    if (out_of_memory) {
        if (c->control_fd >= 0)
            snprintf(why, why_len, "%s", strerror(ENOMEM));
        control_close(&c);
    }
    return c;
}

void control_close(struct control **cp)
{
    struct control *c = *cp;
    unsigned i;

    CHECK_OBJ(c, CONTROL_MAGIC);
    *cp = NULL;
    for (i = 0; i < CONTROL_CLIENTS_MAX; i++) {
        if (c->control_clients[i].client_fd >= 0)
            control_leave(&c->control_clients[i]);
        if (c->control_clients[i].client_event != NULL)
            event_free(c->control_clients[i].client_event);
    }
    if (c->control_event != NULL)
        event_free(c->control_event);
    if (c->control_pause != NULL)
        event_free(c->control_pause);
    if (c->control_fd >= 0) {
        if (c->control_path != NULL)
            unixsock_remove(c->control_path, &c->control_id);
        close(c->control_fd);
    }
    free(c->control_path);
    c->magic = 0;
    free(c);
}

void control_answer(struct control_client *client, const char *format, ...)
{
    char answer[CONTROL_ANSWER_MAX];
    va_list ap;

    if (client->client_fd < 0)
        return;
    va_start(ap, format);
    vsnprintf(answer, sizeof answer, format, ap);
    va_end(ap);
    control_send(client->client_fd, answer);
    control_leave(client);
}

enum control_command control_parse(char *line, const char **argument)
{
    char *blank = strchr(line, ' ');
    unsigned i;

    *argument = line + strlen(line);
    if (blank != NULL) {
        *blank = '\0';
        *argument = blank + 1;
    }
    for (i = 0; i < CONTROL_UNKNOWN; i++)
        if (strcmp(line, control_commands[i].command_name) == 0)
            break;
    if (i == CONTROL_UNKNOWN || (control_commands[i].command_argument[0] == '\0' && blank != NULL) ||
        (control_commands[i].command_argument[0] != '[' && control_commands[i].command_argument[0] != '\0' &&
         (*argument)[0] == '\0'))
        return CONTROL_UNKNOWN;
    return (enum control_command)i;
}

static void control_accept(evutil_socket_t listener, short what, void *arg)
{
    struct control *c = arg;
    struct ucred peer;
    int fd;

    (void)what;
    CHECK_OBJ(c, CONTROL_MAGIC);
    fd = accept4((int)listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE) { /* the client stays in the queue, and would wake us for ever */
            log_write(LOG_LEVEL_WARN, "control socket: %s", strerror(errno));
            event_del(c->control_event);
            evtimer_add(c->control_pause, &(struct timeval){.tv_sec = 1});
        }
        return;
    }
    if (control_allowed(c, fd, &peer)) {
        control_admit(c, fd);
        return;
    }
    log_write(LOG_LEVEL_WARN, "control socket: refused pid %ld, uid %ld, gid %ld", (long)peer.pid, (long)peer.uid,
              (long)peer.gid);
    control_send(fd, "refused: only root, the server's own user and members of its group may do this\n");
    close(fd);
}

static void control_resume(evutil_socket_t fd, short what, void *arg)
{
    struct control *c = arg;

    (void)fd;
    (void)what;
    CHECK_OBJ(c, CONTROL_MAGIC);
    event_add(c->control_event, NULL);
}

/* The mode of the socket's file says the same, but it can be changed by hand, and directories are shared. */
static bool control_allowed(const struct control *c, int fd, struct ucred *peer)
{
    gid_t groups[CONTROL_GROUPS_MAX];
    socklen_t len = sizeof *peer;
    unsigned i;

    memset(peer, 0xff, sizeof *peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &len) != 0)
        return false;
    if (peer->uid == 0 || peer->uid == geteuid())
        return true;
    if (c->control_group == (gid_t)-1)
        return false;
    if (peer->gid == c->control_group)
        return true;
    len = sizeof groups;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len) != 0)
        return false;
    for (i = 0; i < len / sizeof *groups; i++)
        if (groups[i] == c->control_group)
            return true;
    return false;
}

static void control_admit(struct control *c, int fd)
{
    const struct timeval timeout = {.tv_sec = CONTROL_TIMEOUT_S};
    struct control_client *client;
    unsigned i;

    for (i = 0; i < CONTROL_CLIENTS_MAX && c->control_clients[i].client_fd >= 0; i++)
        ;
    if (i == CONTROL_CLIENTS_MAX) {
        control_send(fd, "refused: too many at the same time\n");
        close(fd);
        return;
    }
    client = &c->control_clients[i];
    client->client_len = 0;
    AZ(event_assign(client->client_event, event_get_base(client->client_event), fd, EV_READ | EV_PERSIST, control_read,
                    client));
    if (event_add(client->client_event, &timeout) != 0) {
        close(fd);
        return;
    }
    client->client_fd = fd;
}

static void control_read(evutil_socket_t fd, short what, void *arg)
{
    struct control_client *client = arg;
    char *end;
    ssize_t n;

    CHECK_OBJ(client->client_control, CONTROL_MAGIC);
    if (what & EV_TIMEOUT) {
        control_answer(client, "refused: no command within %d seconds\n", CONTROL_TIMEOUT_S);
        return;
    }
    n = read((int)fd, client->client_line + client->client_len, CONTROL_LINE_MAX - client->client_len);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        control_leave(client);
        return;
    }
    client->client_len += (size_t)n;
    end = memchr(client->client_line, '\n', client->client_len);
    if (end != NULL) {
        *end = '\0';
        if (strlen(client->client_line) != (size_t)(end - client->client_line))
            control_answer(client, "refused: not a command\n");
        else
            control_line(client);
    } else if (client->client_len == CONTROL_LINE_MAX) {
        control_answer(client, "refused: a command has at most %d octets\n", CONTROL_LINE_MAX);
    }
}

static void control_line(struct control_client *client)
{
    const char *argument;
    enum control_command command = control_parse(client->client_line, &argument);

    if (command == CONTROL_UNKNOWN) {
        control_answer(client, "refused: unknown command, or one with an argument missing or too many\n");
        return;
    }
    /* One command each; the answer may take longer than the line did. */
    event_del(client->client_event);
    client->client_control->control_handler(client->client_control->control_context, client, command, argument);
}

/* Small, into an empty buffer: it fits, or the client has left. */
static void control_send(int fd, const char *text)
{
    if (send(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        log_write(LOG_LEVEL_DEBUG, "control socket: %s", strerror(errno));
}

static void control_leave(struct control_client *client)
{
    event_del(client->client_event);
    close(client->client_fd);
    client->client_fd = -1;
}
