/* Inlay's operators for C, and for whatever can call C. docs/c.md is the introduction.
 *
 *   inlay_backend *backend;
 *   inlay_backend_open(NULL, &backend);
 *   const inlay_argument arguments[] = {inlay_give_tensor("x", &x), inlay_give_tensor("weight", &weight),
 *                                       inlay_give_tensor("y", &y), inlay_give_number("eps", 1e-6)};
 *   if (inlay_run(backend, "rms_norm", arguments, 4, NULL, 0) != INLAY_OK) puts(inlay_message());
 *
 * Every function that can fail returns a code; inlay_message() says in words what the last failing call of this thread
 * was given and what it must be. A call that is refused has written nothing. No exception leaves the library.
 *
 * Structs with a member `size` may grow: set it to sizeof of the struct that you compile with. A smaller one is taken
 * with defaults for what lies behind it. A larger one is taken if all that the library does not know is zero. Where a
 * struct is filled in for you, what the library does not know becomes zero. The other structs never change.
 *
 * Functions may be called from any number of threads at once, also with one backend. One model serves one call at a
 * time. */
#ifndef INLAY_H
#define INLAY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Moves where a struct, a value or a function of this header changes its meaning; what is added behind leaves it. */
#define INLAY_ABI 1

#if defined(__GNUC__)
#define INLAY_API __attribute__((visibility("default")))
#else
#define INLAY_API
#endif

/* The tensors of DLPack. Who needs its own header includes that before this one. */
#ifndef DLPACK_DLPACK_H_
typedef struct DLDevice {
  int32_t device_type; /* of host memory 1, kDLCPU: no other is taken */
  int32_t device_id;
} DLDevice;
typedef struct DLDataType {
  uint8_t code;   /* 0 int, 1 unsigned int, 2 float, 4 bfloat, 6 bool */
  uint8_t bits;   /* i4 and u4 have 4: two elements to a byte, the lower half first */
  uint16_t lanes; /* 1 */
} DLDataType;
typedef struct DLTensor {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; NULL: contiguous */
  uint64_t byte_offset;
} DLTensor;
enum { kDLCPU = 1 };
enum { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4, kDLBool = 6 };
#endif

typedef int32_t inlay_code;
enum {
  INLAY_OK = 0,
  INLAY_INVALID_ARGUMENT = 1, /* the call is outside the contract */
  INLAY_UNSUPPORTED = 2,      /* within it, and this backend or this build does not do it */
  INLAY_NOT_FOUND = 3,        /* a file, a key or a tensor is not there */
  INLAY_CORRUPT_DATA = 4,     /* a file or a row of numbers is not what it claims to be */
  INLAY_OUT_OF_MEMORY = 5,
  INLAY_INTERNAL = 6
};

/* What the last failing call of this thread said; "" before there was one. Valid until the thread's next failing call. */
INLAY_API const char *inlay_message(void);
INLAY_API const char *inlay_version(void); /* "0.9.0" */
INLAY_API int32_t inlay_abi(void);         /* INLAY_ABI of the library */

/* ---- backends: who computes ---- */

typedef struct inlay_backend inlay_backend;

/* Runs task(data, i) for each i < tasks, in any order, on any threads, and returns when all are done. */
typedef void (*inlay_run_tasks)(void *context, size_t tasks, void (*task)(void *data, size_t i), void *data);

typedef struct inlay_backend_options {
  size_t size;
  const char *name;    /* "cpu", or "reference", the textbook in double; NULL: "cpu" */
  const char *isa;     /* of the cpu: "avx2", ..; NULL: the best that the machine has */
  int32_t threads;     /* of the cpu: of the library's own threads; 0: as many as the process may use */
  int32_t width;       /* with `run`: how many tasks it runs at once, the caller among them */
  inlay_run_tasks run; /* your threads in place of the library's; NULL: none. It is called by the thread that calls, */
  void *context;       /* which gives it this */
} inlay_backend_options;

/* `options` NULL: all defaults. The threads of `run` must live as long as the backend. */
INLAY_API inlay_code inlay_backend_open(const inlay_backend_options *options, inlay_backend **backend);
INLAY_API void inlay_backend_close(inlay_backend *backend); /* NULL is no backend, and does nothing */

/* ---- operators: docs/ops/ has a page for each ---- */

/* Kinds of fields and of what they are given. */
enum {
  INLAY_TENSOR = 1,
  INLAY_LIST = 2,    /* of tensors */
  INLAY_INTEGER = 3, /* `integer` */
  INLAY_NUMBER = 4,  /* `number`, which becomes a float */
  INLAY_FLAG = 5,    /* `integer`, 0 or 1 */
  INLAY_WORD = 6     /* `word`, one of the field's words */
};

typedef struct inlay_tensor_list {
  const DLTensor *const *tensors;
  size_t count;
} inlay_tensor_list;

/* What one field of an operator is given. This struct never changes. */
typedef struct inlay_argument {
  const char *name;
  int32_t kind;
  int32_t reserved; /* 0 */
  union {
    const DLTensor *tensor; /* NULL: left out */
    inlay_tensor_list list;
    int64_t integer;
    double number;
    const char *word;
  };
} inlay_argument;

/* Every required field, and of the others those that shall not have their defaults, in any order, each once.
 * `workspace`: inlay_workspace_bytes of scratch, aligned to 64 bytes; with NULL and 0 the call takes memory of its own.
 * On success all outputs are written; a refused call has written nothing. */
INLAY_API inlay_code inlay_run(const inlay_backend *backend, const char *op, const inlay_argument *arguments,
                               size_t count, void *workspace, size_t workspace_bytes);
/* How much scratch that call needs; it may be 0. What inlay_run would refuse is refused here. */
INLAY_API inlay_code inlay_workspace_bytes(const inlay_backend *backend, const char *op, const inlay_argument *arguments,
                                           size_t count, size_t *bytes);

/* ---- introspection: what operators there are, and what they take ---- */

enum {
  INLAY_IN = 1,
  INLAY_OPTIONAL_IN = 2,
  INLAY_OUT = 3,
  INLAY_OPTIONAL_OUT = 4,
  INLAY_INOUT = 5,   /* read and written in place */
  INLAY_IN_LIST = 6, /* tensors that are read; may be left out */
  INLAY_SCALAR = 7   /* has a default */
};

typedef struct inlay_field {
  size_t size;
  const char *name;
  int32_t role;             /* INLAY_IN .. */
  int32_t kind;             /* INLAY_TENSOR .. */
  int32_t rank;             /* of a tensor, and of each of a list; else 0 */
  int32_t reserved;         /* 0 */
  int64_t default_integer;  /* of an integer and a flag */
  double default_number;    /* of a number */
  const char *default_word; /* of a word; else NULL */
  const char *const *words; /* those that a word may be, and NULL behind the last; else NULL */
} inlay_field;

INLAY_API size_t inlay_op_count(void);
INLAY_API const char *inlay_op_name(size_t i); /* NULL: there are no more */
/* `op` may also be a packer of weights, below. */
INLAY_API inlay_code inlay_field_count(const char *op, size_t *count);
/* The caller has set field->size. What it points to lives as long as the library is loaded. */
INLAY_API inlay_code inlay_field_at(const char *op, size_t i, inlay_field *field);

/* ---- weights: packed once, for the operators linear, linear_int8 and linear_w4a16 ---- */

typedef struct inlay_weight inlay_weight;

typedef struct inlay_weight_info {
  size_t size;
  const char *op;                  /* which it is packed for */
  const inlay_argument *arguments; /* what it is to that operator, besides x, y and the like: */
  size_t argument_count;           /* they live as long as the weight */
  int64_t n;                       /* channels: y is [tokens, n] */
  int64_t k;                       /* inputs: x is [tokens, k] */
  int64_t bytes;                   /* that it holds */
} inlay_weight_info;

/* `packer` is one of inlay_packer_name: "pack_linear", "import_gguf", ..; its arguments are those of an operator's call,
 * and inlay_field_at tells them by its name. The weight has memory of its own, and may be used by any number of threads.
 * A refused call has put NULL. */
INLAY_API inlay_code inlay_weight_pack(const inlay_backend *backend, const char *packer, const inlay_argument *arguments,
                                       size_t count, inlay_weight **weight);
/* The caller has set info->size. */
INLAY_API inlay_code inlay_weight_describe(const inlay_weight *weight, inlay_weight_info *info);
INLAY_API void inlay_weight_close(inlay_weight *weight); /* NULL is no weight, and does nothing */

INLAY_API size_t inlay_packer_count(void);
INLAY_API const char *inlay_packer_name(size_t i); /* NULL: there are no more */

/* ---- models: a GGUF file, or a directory with safetensors ---- */

typedef struct inlay_model inlay_model;

/* So many of `all` layers are in memory. Called by the thread that opens the model. */
typedef void (*inlay_on_progress)(void *user, int64_t done, int64_t all);

typedef struct inlay_model_options {
  size_t size;
  const inlay_backend *backend;  /* must outlive the model; NULL: the cpu with all defaults */
  const char *kv_type;           /* of the cache: "f32", "f16", "bf16", "int8"; NULL: f32 for a model of f32, else f16 */
  int64_t context;               /* tokens of a text at most; 0: the model's */
  int64_t cache_tokens;          /* of all texts at once; 0: four contexts */
  int32_t batch;                 /* texts that are written at once; 0: 32 */
  int32_t reserved;              /* 0 */
  inlay_on_progress on_progress; /* or NULL */
  void *user;                    /* which it is given */
} inlay_model_options;

/* A prompt in words or in tokens. This struct never changes. */
typedef struct inlay_prompt {
  const char *text; /* or NULL */
  size_t bytes;
  const int32_t *tokens; /* or NULL */
  size_t count;
} inlay_prompt;

typedef struct inlay_request {
  size_t size;
  const inlay_prompt *prompts; /* they are written together, each as if it were alone */
  size_t prompt_count;
  int64_t tokens;                 /* of each text at most, 1 or more */
  const inlay_argument *sampling; /* scalars of the operator `sampling`: "temperature", "top_p", "seed", ..; */
  size_t sampling_count;          /* without any the likeliest token is taken (temperature 0) */
  const char *const *stops;       /* where one stands in a text, the text ends before it */
  size_t stop_count;
  int32_t ignore_eos; /* 1: a token that ends texts is like any other */
  int32_t reserved;   /* 0 */
} inlay_request;

/* Why a text has ended. */
enum {
  INLAY_END_TOKENS = 1,  /* it has as many as were asked for */
  INLAY_END_STOP = 2,    /* at a token that ends texts, or a stop string */
  INLAY_END_CONTEXT = 3, /* no more would fit */
  INLAY_END_CALLER = 4,  /* on_text said so */
  INLAY_END_FAILED = 5   /* inlay_message has the first failure; the code of the call tells it */
};

/* What became of one prompt. This struct never changes. */
typedef struct inlay_text {
  int32_t end;      /* INLAY_END_TOKENS .. */
  int32_t reserved; /* 0 */
  int64_t tokens;   /* new ones */
} inlay_text;

/* A new token of prompt i, and the bytes of text that can be printed by now: whole characters, none of which may yet become a
 * stop string, so there may be none. With token -1: what was held back at the end. 0 ends this text, anything else goes on. */
typedef int32_t (*inlay_on_text)(void *user, size_t i, const char *text, size_t bytes, int32_t token);

INLAY_API inlay_code inlay_model_open(const char *path, const inlay_model_options *options, inlay_model **model);
INLAY_API void inlay_model_close(inlay_model *model); /* NULL is no model, and does nothing */
/* `texts`: as many as there are prompts, or NULL. The callback is called by the thread that calls. */
INLAY_API inlay_code inlay_model_generate(inlay_model *model, const inlay_request *request, inlay_on_text on_text,
                                          void *user, inlay_text *texts);
/* Writes the tokens of a text, as far as there is room; `count` is how many there are. */
INLAY_API inlay_code inlay_model_tokenize(const inlay_model *model, const char *text, size_t bytes, int32_t *tokens,
                                          size_t room, size_t *count);

/* A message of a chat: its role is "system", "user", "assistant" or what else the template knows. Special tokens are what
 * the template writes, never what a message says. This struct never changes. */
typedef struct inlay_chat_message {
  const char *role;
  const char *content;
  size_t bytes; /* of content */
} inlay_chat_message;

typedef struct inlay_chat {
  size_t size;
  const inlay_chat_message *messages;
  size_t message_count;
  const inlay_argument *switches; /* flags that the template asks for: "enable_thinking" and the like */
  size_t switch_count;
  const char *chat_template; /* Jinja; NULL: the model's own */
} inlay_chat;

/* As inlay_model_tokenize, of a chat up to where the answer begins. INLAY_NOT_FOUND: the model has no template. */
INLAY_API inlay_code inlay_model_tokenize_chat(const inlay_model *model, const inlay_chat *chat, int32_t *tokens,
                                               size_t room, size_t *count);

/* ---- arguments in one line each ---- */

static inline inlay_argument inlay_give_tensor(const char *name, const DLTensor *tensor) {
  inlay_argument argument = {name, INLAY_TENSOR, 0, {0}};
  argument.tensor = tensor;
  return argument;
}
static inline inlay_argument inlay_give_list(const char *name, const DLTensor *const *tensors, size_t count) {
  inlay_argument argument = {name, INLAY_LIST, 0, {0}};
  argument.list.tensors = tensors;
  argument.list.count = count;
  return argument;
}
static inline inlay_argument inlay_give_integer(const char *name, int64_t integer) {
  inlay_argument argument = {name, INLAY_INTEGER, 0, {0}};
  argument.integer = integer;
  return argument;
}
static inline inlay_argument inlay_give_number(const char *name, double number) {
  inlay_argument argument = {name, INLAY_NUMBER, 0, {0}};
  argument.number = number;
  return argument;
}
static inline inlay_argument inlay_give_flag(const char *name, int flag) {
  inlay_argument argument = {name, INLAY_FLAG, 0, {0}};
  argument.integer = flag != 0;
  return argument;
}
static inline inlay_argument inlay_give_word(const char *name, const char *word) {
  inlay_argument argument = {name, INLAY_WORD, 0, {0}};
  argument.word = word;
  return argument;
}

#ifdef __cplusplus
}
#endif

#endif /* INLAY_H */
