/* What a command line says of cells: lists of policies with parameters, of admissions, of sizes. */
#ifndef CACHELAB_SPEC_H
#define CACHELAB_SPEC_H

#include "cachelab/lab.h"

#define SPEC_LIST_MAX 64
#define SPEC_MESSAGE_MAX 512

/* Each fills one item from `text`, which ends at `length`. INVALID: what is wrong, and what would be right, is in ret_message. */
enum status spec_policy(const char *text, size_t length, struct lab_policy *ret_policy, char *ret_message);
enum status spec_admission(const char *text, size_t length, struct lab_admission *ret_admission, char *ret_message);
enum status spec_size(const char *text, size_t length, struct lab_size *ret_size, char *ret_message);

/* The capacity of a share: rounded down. INVALID: 2^63 or more. */
enum status spec_share(struct lab_size *size, uint64_t objects, uint128 bytes, char *ret_message);

#endif
