/* A request for a job, read strictly: what is not known here is refused by its name, for a setting that is silently left out trains
 * another model than was asked for. */
#ifndef API_JOB_REQUEST_H
#define API_JOB_REQUEST_H

#include "control/api/internal.h"
#include "control/api/job_settings.h"

struct job_request {
    const char *model;          /* these four lie in the body */
    const char *file;
    const char *validation;     /* NULL */
    const json_t *metadata;     /* an object of texts; NULL */
    struct job_settings settings;
};
/* False: `fault` names the field. */
bool job_request_read(const json_t *body, struct job_request *ret_request, struct fault *fault);

#endif
