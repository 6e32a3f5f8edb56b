/* Jobs over the API. jobs.c: made, listed, looked at, cancelled, paused, resumed. job_request.c: what was asked. job_json.c: how a job is
 * shown. job_events.c: what happened to it, and its checkpoints. */
#ifndef API_JOBS_H
#define API_JOBS_H

#include "control/api/internal.h"
#include "control/metadata/job.h"

#define JOB_WORDS "job"   /* the purpose that a job's metadata is sealed for, under its id */
#define EVENT_WORDS "event" /* an event's words, under the job's id, '-' and its number */
#define WORDS_BYTES_MAX 16384

api_serve job_create;
api_serve job_list;
api_serve job_get;
api_serve job_cancel;
api_serve job_pause;
api_serve job_resume;
api_serve job_events;
api_serve job_checkpoints;

/* As OpenAI has it, and what we add. NULL: `fault`. */
json_t *job_json(struct api *api, struct metadata *metadata, const struct meta_job *job, struct fault *fault);
/* The tenant's own words about the job; an empty object where there are none. json_decref() it. NULL: `fault`. */
json_t *job_words(struct api *api, const struct meta_job *job, struct fault *fault);
/* Words of an event, in `ret_words`. False: `fault`. */
bool event_words(struct api *api, const char *tenant, const char *job, const struct meta_event *event, char ret_words[WORDS_BYTES_MAX],
                 struct fault *fault);
/* What an event says, in our words or the tenant's own. */
bool event_message(struct api *api, struct metadata *metadata, const struct meta_job *job, const struct meta_event *event,
                   char ret_message[WORDS_BYTES_MAX], struct fault *fault);
/* A row's JSON; an empty object where it is none. json_decref() it. */
json_t *row_json(const char *text);

#endif
