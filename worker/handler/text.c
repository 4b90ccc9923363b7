/* `text`: a fixed answer out of the configuration. */
#include "worker/handler/handler.h"

static int text_new(const struct handler_setup *setup, void **state, char why[256]);
static enum handler_result text_request(struct request *r, void *state);
static struct slice text_fixed(void *state);

const struct handler handler_text = {
    .handler_abi = HANDLER_ABI,
    .handler_name = "text",
    .handler_new = text_new,
    .handler_request = text_request,
    .handler_fixed = text_fixed,
};

static int text_new(const struct handler_setup *setup, void **state, char why[256])
{
    (void)why;
    *state = (void *)(uintptr_t)setup->setup_route; /* only read */
    return 0;
}

static enum handler_result text_request(struct request *r, void *state)
{
    const struct conf_route *route = state;

    if (request_unchanged(r))
        return HANDLER_DONE;
    out_write(request_out(r), route->route_text, route->route_text_len);
    return HANDLER_DONE;
}

static struct slice text_fixed(void *state)
{
    const struct conf_route *route = state;

    return (struct slice){route->route_text, route->route_text_len};
}
