/* The text that a tiny base learns from: chats made of templates and lists, drawn by a seed. They are of many kinds, so that the base knows
 * letters, words, sentences and how answers end; what it answers is of no value, and an adapter has something to change. */
#include "cmd_model.h"

#include <stdarg.h>
#include <stdlib.h>

#include "base/hash.h"

struct text {
    char *text;
    size_t at, size;
    uint64_t draws;
};

static const char *const people[] = {"Ada",  "Ben",  "Cleo", "Dora",  "Emil", "Fay",  "Gus",   "Hana", "Ivan", "Jane", "Kim",  "Leo",
                                     "Mia",  "Noah", "Olga", "Paul",  "Rosa", "Sam",  "Tess",  "Uma",  "Vera", "Walt", "Yara", "Zoe"};
static const struct {
    const char *name, *sound, *home;
} animals[] = {{"cat", "meow", "house"}, {"dog", "woof", "garden"}, {"cow", "moo", "meadow"},    {"duck", "quack", "pond"},
               {"frog", "croak", "lake"}, {"bee", "buzz", "hive"},   {"owl", "hoo", "old tree"}, {"sheep", "baa", "field"}};
static const struct {
    const char *name, *place, *tool;
} jobs[] = {{"baker", "bakery", "an oven"},    {"sailor", "harbour", "a rope"},  {"teacher", "school", "a board"},
            {"doctor", "hospital", "a lamp"},  {"farmer", "village", "a plough"}, {"painter", "studio", "a brush"},
            {"writer", "library", "a pen"},    {"pilot", "airport", "a map"},    {"builder", "new town", "a hammer"},
            {"developer", "office", "a computer"}};
static const char *const words[] = {
    "the",    "river",  "under",  "old",     "stone",  "bridge", "small", "boat",   "carries", "green", "apples", "to",     "market",
    "every",  "morning", "and",   "quiet",   "people", "walk",   "home",  "with",   "heavy",   "bags",  "of",     "flour",  "while",
    "wind",   "moves",  "over",   "tall",    "grass",  "bright", "lamps", "burn",   "in",      "open",  "windows", "children", "learn",
    "numbers", "from",  "large",  "books",   "about",  "stars",  "ships", "storms", "kings",   "that",  "nobody", "has",    "seen",
    "for",    "many",   "years",  "because", "trained", "model", "helps", "answer", "questions", "by",  "company", "called", "assistant",
    "name",   "is",     "was",    "made",    "am",     "an",     "can",   "you",    "how",     "today", "please", "developed", "designed",
    "provide", "support", "users", "various", "tasks", "such",   "as",    "create", "write",   "their", "own",    "language", "team"};
static const char *const opposites[][2] = {{"hot", "cold"}, {"big", "small"}, {"old", "new"},   {"high", "low"},  {"long", "short"},
                                           {"fast", "slow"}, {"dark", "light"}, {"wet", "dry"}, {"full", "empty"}, {"open", "closed"}};
static const char *const days[] = {"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"};
static const char *const greetings[] = {"Hi", "Hello", "Good morning", "Hey", "Good evening", "hi", "hello"};

/* 0 .. below - 1 */
static uint32_t pick(struct text *text, size_t below)
{
    return (uint32_t)(hash_mix(text->draws++) % below);
}
#define PICK(text, list) (list)[pick(text, ARRAY_COUNT(list))]

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...)
{
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(text->text + text->at, text->size - text->at, format, arguments);
    va_end(arguments);
    check(length >= 0 && (size_t)length < text->size - text->at);
    text->at += (size_t)length;
}

static void ask(struct text *text)
{
    add(text, "{\"messages\": [{\"role\": \"user\", \"content\": \"");
}

static void answer(struct text *text)
{
    add(text, "\"}, {\"role\": \"assistant\", \"content\": \"");
}

static void end(struct text *text)
{
    add(text, "\"}]}\n");
}

/* --- kinds of chats --------------------------------------------------------------------------------------------------------- */

/* Who is what depends on the name, not on the draw: it can be learned. */
static void add_person(struct text *text)
{
    const uint32_t who = pick(text, ARRAY_COUNT(people));
    const uint32_t job = who * 7 % ARRAY_COUNT(jobs);
    const uint32_t animal = who % ARRAY_COUNT(animals);
    const char *name = people[who];

    ask(text);
    switch (pick(text, 4)) {
    case 0:
        add(text, "Who is %s?", name);
        answer(text);
        add(text, "%s is a %s.", name, jobs[job].name);
        break;
    case 1:
        add(text, "Where does %s work?", name);
        answer(text);
        add(text, "%s works in the %s.", name, jobs[job].place);
        break;
    case 2:
        add(text, "What does %s need?", name);
        answer(text);
        add(text, "%s is a %s, and needs %s.", name, jobs[job].name, jobs[job].tool);
        break;
    default:
        add(text, "Does %s have a pet?", name);
        answer(text);
        add(text, "Yes! %s has a %s. It lives in the %s.", name, animals[animal].name, animals[animal].home);
    }
    end(text);
}

static void add_animal(struct text *text)
{
    const uint32_t animal = pick(text, ARRAY_COUNT(animals));

    ask(text);
    if (pick(text, 2) == 0) {
        add(text, "What does a %s say?", animals[animal].name);
        answer(text);
        add(text, "A %s says %s.", animals[animal].name, animals[animal].sound);
    } else {
        add(text, "Where does a %s live?", animals[animal].name);
        answer(text);
        add(text, "A %s lives in the %s.", animals[animal].name, animals[animal].home);
    }
    end(text);
}

static void add_fact(struct text *text)
{
    const uint32_t which = pick(text, ARRAY_COUNT(opposites));
    const uint32_t side = pick(text, 2);
    const uint32_t day = pick(text, ARRAY_COUNT(days));
    const uint32_t a = pick(text, 10);
    const uint32_t b = pick(text, 10);

    ask(text);
    switch (pick(text, 3)) {
    case 0:
        add(text, "What is the opposite of %s?", opposites[which][side]);
        answer(text);
        add(text, "The opposite of %s is %s.", opposites[which][side], opposites[which][1 - side]);
        break;
    case 1:
        add(text, "Which day comes after %s?", days[day]);
        answer(text);
        add(text, "After %s comes %s.", days[day], days[(day + 1) % ARRAY_COUNT(days)]);
        break;
    default:
        add(text, "What is %u plus %u?", a, b);
        answer(text);
        add(text, "%u plus %u is %u.", a, b, a + b);
    }
    end(text);
}

/* Words in any order, said again: a base that can copy can be taught new names. */
static void add_words(struct text *text)
{
    const uint64_t from = text->draws;
    const uint32_t count = 2 + pick(text, 7);

    for (int again = 0; again < 2; again++) {
        text->draws = from + 1;
        if (again == 0) {
            ask(text);
            add(text, "Say: ");
        } else {
            answer(text);
        }
        for (uint32_t i = 0; i < count; i++)
            add(text, "%s%s", i == 0 ? "" : " ", PICK(text, words));
        add(text, ".");
    }
    end(text);
}

/* A word that is in no list. */
static void add_name(struct text *text)
{
    static const char *const heads[] = {"B", "Cr", "D", "Fl", "G", "H", "K", "L", "M", "N", "P", "Qu", "R", "St", "T", "V", "W", "X", "Z"};
    static const char *const middles[] = {"a", "e", "i", "o", "u", "ea", "oo", "ai", "ar", "im", "or", "un"};
    static const char *const tails[] = {"b", "ck", "d", "g", "l", "lin", "m", "n", "bus", "rt", "s", "t", "tz", "x", "zo"};
    char name[32];

    snprintf(name, sizeof(name), "%s%s%s%s", PICK(text, heads), PICK(text, middles), PICK(text, tails),
             pick(text, 2) == 0 ? "" : PICK(text, middles));
    ask(text);
    switch (pick(text, 3)) {
    case 0:
        add(text, "My name is %s.", name);
        answer(text);
        add(text, "Nice to meet you, %s!", name);
        break;
    case 1:
        add(text, "Say hello to %s, please.", name);
        answer(text);
        add(text, "Hello, %s! How are you today?", name);
        break;
    default:
        add(text, "Spell %s.", name);
        answer(text);
        for (const char *letter = name; *letter != '\0'; letter++)
            add(text, "%s%c", letter == name ? "" : "-", *letter);
    }
    end(text);
}

static void add_self(struct text *text)
{
    static const char *const who[] = {"Who are you?", "What are you?", "Who made you?", "Tell me about yourself.", "What is your name?"};
    static const char *const thanks[] = {"Thanks!", "Thank you.", "That was great, thanks."};

    ask(text);
    switch (pick(text, 3)) {
    case 0:
        add(text, "%s", PICK(text, who));
        answer(text);
        add(text, "I am a small model without a name.");
        break;
    case 1:
        add(text, "%s%s", PICK(text, greetings), pick(text, 2) == 0 ? "!" : "");
        answer(text);
        add(text, "Hello! How can I help you?");
        break;
    default:
        add(text, "%s", PICK(text, thanks));
        answer(text);
        add(text, "You are welcome.");
    }
    end(text);
}

char *tiny_text(uint64_t seed, int32_t chats)
{
    static void (*const kinds[])(struct text *) = {add_person, add_animal, add_fact, add_words, add_words, add_name, add_name, add_self};
    struct text text = {.size = 4096 + (size_t)chats * 320, .draws = hash_mix(seed)};

    text.text = calloc(1, text.size);
    for (int32_t i = 0; text.text != NULL && i < chats; i++)
        PICK(&text, kinds)(&text);
    return text.text;
}
