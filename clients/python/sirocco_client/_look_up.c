/* The look-up of calibration maps, and of quantiles: what `PlainLookUp` does in maps.py of this
   client, and `NumpyLookUp` in calibrators/maps/look_up.py of the service, to the last bit; and
   what both do in numpy to make quantiles, to a bit or two, as exp and log are those of the C
   library here. For the service it finds values of fields in JSON, too, as they stand there.

   Optional, and built twice, into the client and into the service. Where no compiler was, Python
   does the same. Built for CPython's limited API, so that one file serves every version from 3.11
   on, and without contracted operations (a multiplication and an addition rounded once), which
   would give other bits.

   All columns are checked when a look-up is made. After that a row within bounds leads to no place
   beyond them, so that the loops need no checks of their own. */

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* Scores that are searched side by side: each waits for memory while the others do. */
#define AT_ONCE 32

/* From here on other threads may run meanwhile. */
#define LONG 1024

/* Which processor it is says the loader: wide ones search several scores with one instruction. */
#if defined(__x86_64__) && defined(__GNUC__) && defined(__GLIBC__)
#define FOR_EACH_KIND __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_KIND
#endif

/* Standard deviations of a map, at as many log-odds of the score. */
#define PLACES 8

/* Slots of others that may stand before that of a name. */
enum { MOST_STEPS = 128 };

/* Bytes of a slot, and those of a name that stand in it. */
enum { SLOT = 32, INLINE = 22 };

enum { SPANS, KNOTS, SEGMENTS, COLUMNS };

/* A name in half a line of the cache: its hash, its row or 0, its length, and how it starts. */
typedef struct {
    uint32_t hash, row;
    uint16_t length;
    char start[INLINE];
} Slot;

/* Names by their hashes; row i + 1 is that of texts[i]. A look-up touches one slot, where one in a
   dict touches its index, the entry, the name and the number, each in a page of its own. */
typedef struct {
    PyObject_HEAD
    PyObject *texts;
    Py_buffer table;
    Slot *slots;
    int64_t mask;
    Py_ssize_t filled;
} Names;

static PyTypeObject *names_type;

typedef struct { int64_t first, length, shift; } Span;

typedef struct { double value, slope; } Segment;

typedef struct {
    PyObject_HEAD
    Names *names;
    Py_buffer columns[COLUMNS];
    int64_t count;
    const Span *spans;
    const double *knots;
    const Segment *segments;
} LookUp;

/* How many rows of so many numbers a column has. */
static Py_ssize_t size_of(const Py_buffer *column, int wide) {
    return column->len / column->itemsize / wide;
}

/* A column with rows of so many numbers: int64 ("lq"), float64 ("d"), float32 ("f"), uint32 ("I"),
   bytes ("B"); -1 with an exception on anything else. */
static int read_column(PyObject *from, Py_buffer *column, const char *kinds, int wide, int flags) {
    if (PyObject_GetBuffer(from, column, PyBUF_ND | PyBUF_FORMAT | flags) < 0) {
        column->obj = NULL;
        return -1;
    }
    char kind = column->format ? column->format[0] : '\0';
    int is_shaped = wide == 1 ? column->ndim == 1 : column->ndim == 2 && column->shape[1] == wide;
    int size = *kinds == 'B' ? 1 : strchr("fI", *kinds) ? 4 : 8;
    if (is_shaped && column->itemsize == size && kind && strchr(kinds, kind))
        return 0;
    PyBuffer_Release(column);
    PyErr_Format(PyExc_TypeError, "a column of kind %s, %d wide, is required", kinds, wide);
    return -1;
}

/* Of kinds: S spans, P segments, F spreads, q rows, d numbers, D to be written, v or None. */
static int read_columns(PyObject *const *from, Py_buffer *columns, const char *kinds) {
    for (int i = 0; kinds[i]; i++) {
        const char *kind = strchr("Sq", kinds[i]) ? "lq" : kinds[i] == 'F' ? "f" : "d";
        int wide = kinds[i] == 'S' ? 3 : kinds[i] == 'P' ? 2 : kinds[i] == 'F' ? PLACES : 1;
        int flags = kinds[i] == 'D' ? PyBUF_WRITABLE : 0;
        if (kinds[i] == 'v' && from[i] == Py_None) continue;
        if (read_column(from[i], &columns[i], kind, wide, flags) < 0) return -1;
    }
    return 0;
}

static PyObject *released(Py_buffer *columns, int count, PyObject *result) {
    while (count) PyBuffer_Release(&columns[--count]);
    return result;
}

/* Whether no row leads beyond the knots, or the segments, that there are. */
static int leads_inside(const LookUp *self) {
    int64_t knots = size_of(&self->columns[KNOTS], 1);
    int64_t segments = size_of(&self->columns[SEGMENTS], 2);
    for (const Span *each = self->spans; each < self->spans + self->count; each++) {
        int64_t first = each->first, length = each->length, shift = each->shift;
        if (length < 1 || length > knots || first < 0 || first > knots - length) return 0;
        if (length > segments || shift < -first || shift > segments - length - first) return 0;
    }
    return 1;
}

static int take_columns(LookUp *self, PyObject *const *given) {
    if (read_columns(given, self->columns, "SdP") < 0) return -1;
    self->spans = self->columns[SPANS].buf;
    self->knots = self->columns[KNOTS].buf;
    self->segments = self->columns[SEGMENTS].buf;
    self->count = size_of(&self->columns[SPANS], 3);
    if (leads_inside(self)) return 0;
    PyErr_SetString(PyExc_ValueError, "maps: a row leads beyond the columns");
    return -1;
}

static PyObject *look_up_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(named)) {
    PyObject *names, *given[COLUMNS];
    if (!PyArg_ParseTuple(args, "O!(OOO)", names_type, &names, &given[SPANS], &given[KNOTS],
                          &given[SEGMENTS]))
        return NULL;
    LookUp *self = (LookUp *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL) return NULL;
    self->names = (Names *)Py_NewRef(names);
    if (take_columns(self, given) == 0) return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static void freed(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static void look_up_dealloc(PyObject *object) {
    LookUp *self = (LookUp *)object;
    released(self->columns, COLUMNS, NULL);
    Py_XDECREF((PyObject *)self->names);
    freed(object);
}

static double line(const LookUp *self, int64_t row, int64_t place, double score) {
    const Segment *at = self->segments + place + self->spans[row].shift;
    return at->value + at->slope * (score - self->knots[place]);
}

/* By halving, without a branch: which way a step goes cannot be foreseen. */
static double found_in(const LookUp *self, int64_t row, double score) {
    int64_t place = self->spans[row].first, length = self->spans[row].length;
    while (length > 1) {
        int64_t half = length >> 1;
        place += half * (self->knots[place + half] <= score);
        length -= half;
    }
    return line(self, row, place, score);
}

FOR_EACH_KIND
static void search(const LookUp *self, const int64_t *rows, const double *scores, double *found,
                   Py_ssize_t count) {
    int64_t places[AT_ONCE], lengths[AT_ONCE], longest = 1;
    for (Py_ssize_t i = 0; i < count; i++) {
        places[i] = self->spans[rows[i]].first;
        lengths[i] = self->spans[rows[i]].length;
        if (lengths[i] > longest) longest = lengths[i];
    }
    for (; longest > 1; longest -= longest >> 1)
        for (Py_ssize_t i = 0; i < count; i++) {
            int64_t half = lengths[i] >> 1;
            places[i] += half * (self->knots[places[i] + half] <= scores[i]);
            lengths[i] -= half;
        }
    for (Py_ssize_t i = 0; i < count; i++) found[i] = line(self, rows[i], places[i], scores[i]);
}

static int are_rows(int64_t maps, const int64_t *rows, Py_ssize_t count) {
    int outside = 0;
    /* One below 0 is larger than all others, as it is read here. */
    for (Py_ssize_t i = 0; i < count; i++) outside |= (uint64_t)rows[i] >= (uint64_t)maps;
    if (!outside) return 1;
    PyErr_SetString(PyExc_IndexError, "maps: a row beyond the last");
    return 0;
}

static int are(Py_ssize_t found, Py_ssize_t expected) {
    if (found == expected) return 1;
    PyErr_Format(PyExc_TypeError, "%zd arguments are required, not %zd", expected, found);
    return 0;
}

static int are_equal(Py_ssize_t some, Py_ssize_t others) {
    if (some == others) return 1;
    PyErr_SetString(PyExc_ValueError, "maps: columns of unequal lengths");
    return 0;
}

/* The bytes of a name, and what they hash to. */
typedef struct {
    const char *start;
    Py_ssize_t length;
    uint64_t hash;
} Text;

static uint64_t mixed(uint64_t hash, uint64_t some) {
    some *= 0x9e3779b97f4a7c15u;
    return (hash ^ some ^ some >> 47) * 0x9e3779b97f4a7c15u;
}

/* By eight bytes; the last eight may have some of those before them. Of fewer bytes than eight, the
   first and the last four, or each. */
static uint64_t hash_of(const char *start, Py_ssize_t length) {
    uint64_t hash = (uint64_t)length, some = 0;
    uint32_t last = 0;
    for (Py_ssize_t from = 0; from + 8 < length; from += 8) {
        memcpy(&some, start + from, 8);
        hash = mixed(hash, some);
    }
    if (length >= 8) {
        memcpy(&some, start + length - 8, 8);
    } else if (length >= 4) {
        memcpy(&some, start, 4);
        memcpy(&last, start + length - 4, 4);
        some |= (uint64_t)last << 32;
    } else {
        for (Py_ssize_t i = 0; i < length; i++) some = some << 8 | (unsigned char)start[i];
    }
    return mixed(hash, some);
}

/* What is no text, or none that UTF-8 can write, is no name, and of no length. */
static Text text_of(PyObject *name) {
    Py_ssize_t length;
    int is_text = name && PyUnicode_Check(name);
    const char *start = is_text ? PyUnicode_AsUTF8AndSize(name, &length) : NULL;
    if (start) return (Text){start, length, hash_of(start, length)};
    PyErr_Clear();
    return (Text){"", -1, 0};
}

/* Whether texts of one length, that a slot holds, are the same; by eight bytes as they are hashed,
   since a call for a few bytes costs more than they do. */
static int are_same(const char *some, const char *others, Py_ssize_t length) {
    uint64_t left = 0, right = 0;
    if (length < 8) return memcmp(some, others, length) == 0;
    for (Py_ssize_t from = 0; from + 8 < length; from += 8) {
        memcpy(&left, some + from, 8);
        memcpy(&right, others + from, 8);
        if (left != right) return 0;
    }
    memcpy(&left, some + length - 8, 8);
    memcpy(&right, others + length - 8, 8);
    return left == right;
}

static int is_of(const Names *self, const Slot *slot, const Text *text) {
    if (slot->hash != (uint32_t)text->hash || slot->length != text->length) return 0;
    if (text->length <= INLINE) return are_same(slot->start, text->start, text->length);
    Text whole = text_of(PyTuple_GetItem(self->texts, slot->row - 1));
    return whole.length == text->length && memcmp(whole.start, text->start, text->length) == 0;
}

/* The slot of a name, or a free one; NULL where too many others stand in its way. */
static Slot *slot_of(const Names *self, const Text *text) {
    for (int step = 0; step < MOST_STEPS; step++) {
        Slot *slot = self->slots + (((text->hash >> 32) + step) & self->mask);
        if (slot->row == 0 || is_of(self, slot, text)) return slot;
    }
    return NULL;
}

/* 0 of a name that is not known. */
static int64_t row_of(const Names *self, PyObject *name) {
    Text text = text_of(name);
    const Slot *slot = slot_of(self, &text);
    return slot ? slot->row : 0;
}

static PyObject *names_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(named)) {
    PyObject *texts, *table;
    if (!PyArg_ParseTuple(args, "O!O", &PyTuple_Type, &texts, &table)) return NULL;
    Names *self = (Names *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL) return NULL;
    self->texts = Py_NewRef(texts);
    int done = read_column(table, &self->table, "B", SLOT, PyBUF_WRITABLE) == 0;
    Py_ssize_t count = done ? self->table.shape[0] : 0;
    if (done && (count & (count - 1) || count <= PyTuple_Size(texts))) {
        PyErr_SetString(PyExc_ValueError, "names: a power of two of slots, more than names");
        done = 0;
    }
    if (!done) {
        Py_DECREF(self);
        return NULL;
    }
    self->slots = self->table.buf;
    self->mask = count - 1;
    memset(self->slots, 0, self->table.len);
    return (PyObject *)self;
}

static void names_dealloc(PyObject *object) {
    Names *self = (Names *)object;
    released(&self->table, 1, NULL);
    Py_XDECREF(self->texts);
    freed(object);
}

static Py_ssize_t names_length(PyObject *object) { return ((Names *)object)->filled; }

static int are_names(PyObject *object) {
    if (object && PyObject_TypeCheck(object, names_type)) return 1;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "names are required");
    return 0;
}

static int add_one(Names *self, PyObject *name) {
    Text text = text_of(name);
    int fits = text.length >= 0 && text.length <= UINT16_MAX;
    Slot *slot = fits ? slot_of(self, &text) : NULL;
    if (slot == NULL) PyErr_SetString(PyExc_ValueError, "names: hashes are alike, or one is odd");
    else if (slot->row) PyErr_SetString(PyExc_KeyError, "names: one stands twice");
    if (slot == NULL || slot->row) return -1;
    *slot = (Slot){(uint32_t)text.hash, (uint32_t)(self->filled + 1), (uint16_t)text.length, {0}};
    memcpy(slot->start, text.start, text.length < INLINE ? text.length : INLINE);
    self->filled++;
    return 0;
}

/* Up to so many more of the names. KeyError on one that stands twice; ValueError where they are to
   be left to a dict, whose hashes nobody can foresee. */
static PyObject *add(PyObject *object, PyObject *const *args, Py_ssize_t n) {
    Names *self = (Names *)object;
    Py_ssize_t more = are(n, 1) ? PyLong_AsSsize_t(args[0]) : -1;
    if (PyErr_Occurred()) return NULL;
    for (; more > 0 && self->filled < PyTuple_Size(self->texts); more--)
        if (add_one(self, PyTuple_GetItem(self->texts, self->filled)) < 0) return NULL;
    Py_RETURN_NONE;
}

/* As of a dict. */
static PyObject *get(PyObject *object, PyObject *const *args, Py_ssize_t n) {
    if (!are(n, 2)) return NULL;
    int64_t row = row_of((Names *)object, args[0]);
    return row ? PyLong_FromLongLong(row) : Py_NewRef(args[1]);
}

/* Of at most so many as are searched at once; whether all are known. All slots are asked for before
   the first is looked at. */
static int fill_some(const Names *self, const Text *texts, Py_ssize_t count, int64_t *rows) {
    int known = 1;
    for (Py_ssize_t i = 0; i < count; i++)
        __builtin_prefetch(self->slots + (texts[i].hash >> 32 & self->mask));
    for (Py_ssize_t i = 0; i < count; i++) {
        const Slot *slot = slot_of(self, &texts[i]);
        rows[i] = slot ? slot->row : 0;
        known &= rows[i] != 0;
    }
    return known;
}

/* Writes the row of each of as many names, 0 of one that is not known; whether all are. */
static PyObject *fill(PyObject *object, PyObject *const *args, Py_ssize_t n) {
    Py_buffer to;
    PyObject *names[AT_ONCE];
    Text texts[AT_ONCE];
    if (!are(n, 2) || read_column(args[1], &to, "lq", 1, PyBUF_WRITABLE) < 0) return NULL;
    Py_ssize_t count = size_of(&to, 1), held;
    int known = 1, failed = 0;
    for (Py_ssize_t from = 0; !failed && from < count; from += held) {
        for (held = 0; !failed && held < AT_ONCE && from + held < count; held += !failed)
            failed = (names[held] = PySequence_GetItem(args[0], from + held)) == NULL;
        /* What is no text is no error, and would take one away. */
        for (Py_ssize_t i = 0; !failed && i < held; i++) texts[i] = text_of(names[i]);
        if (!failed) known &= fill_some((Names *)object, texts, held, (int64_t *)to.buf + from);
        for (Py_ssize_t i = 0; i < held; i++) Py_DECREF(names[i]);
    }
    PyBuffer_Release(&to);
    return failed ? NULL : PyBool_FromLong(known);
}

enum { PACKED, LENGTHS, FILLED, OF_PACKED };

/* Whether as many texts stand end to end as there are lengths, and end where the bytes do. */
static int are_packed(const Py_buffer *given) {
    const uint32_t *lengths = given[LENGTHS].buf;
    Py_ssize_t count = size_of(&given[LENGTHS], 1), total = 0;
    for (Py_ssize_t i = 0; i < count; i++) total += lengths[i];
    return are_equal(size_of(&given[FILLED], 1), count) && are_equal(total, given[PACKED].len);
}

static int fill_each(const Names *self, const Py_buffer *given) {
    const char *at = given[PACKED].buf;
    const uint32_t *lengths = given[LENGTHS].buf;
    int64_t *rows = given[FILLED].buf;
    Py_ssize_t count = size_of(&given[LENGTHS], 1), some;
    Text texts[AT_ONCE];
    int known = 1;
    for (Py_ssize_t from = 0; from < count; from += some) {
        for (some = 0; some < AT_ONCE && from + some < count; at += lengths[from + some++])
            texts[some] = (Text){at, lengths[from + some], hash_of(at, lengths[from + some])};
        known &= fill_some(self, texts, some, rows + from);
    }
    return known;
}

/* As `fill`, of names that stand end to end, of these lengths. */
static PyObject *fill_packed(PyObject *object, PyObject *const *args, Py_ssize_t n) {
    Py_buffer given[OF_PACKED] = {0};
    int done = are(n, OF_PACKED)
               && PyObject_GetBuffer(args[PACKED], &given[PACKED], PyBUF_SIMPLE) == 0
               && read_column(args[LENGTHS], &given[LENGTHS], "I", 1, 0) == 0
               && read_column(args[FILLED], &given[FILLED], "lq", 1, PyBUF_WRITABLE) == 0
               && are_packed(given);
    PyObject *known = done ? PyBool_FromLong(fill_each((Names *)object, given)) : NULL;
    return released(given, OF_PACKED, known);
}

static PyObject *found_for(const LookUp *self, PyObject *number, PyObject *score) {
    if (number == NULL || score == NULL) return NULL;
    int64_t row = PyLong_AsLongLong(number);
    double asked = PyFloat_AsDouble(score);
    if (PyErr_Occurred() || !are_rows(self->count, &row, 1)) return NULL;
    return PyFloat_FromDouble(found_in(self, row, asked));
}

static PyObject *at(PyObject *object, PyObject *const *args, Py_ssize_t n) {
    if (!are(n, 2)) return NULL;
    LookUp *self = (LookUp *)object;
    int64_t row = row_of(self->names, args[0]);
    if (!row || !PyFloat_Check(args[1])) Py_RETURN_NONE;
    double score = PyFloat_AsDouble(args[1]);
    if (!(score >= 0.0 && score <= 1.0)) Py_RETURN_NONE;
    return are_rows(self->count, &row, 1) ? PyFloat_FromDouble(found_in(self, row, score)) : NULL;
}

static PyObject *of_row(PyObject *object, PyObject *const *args, Py_ssize_t n) {
    return are(n, 2) ? found_for((LookUp *)object, args[0], args[1]) : NULL;
}

static PyObject *look_up_few(PyObject *object, PyObject *const *args, Py_ssize_t n) {
    if (!are(n, 2)) return NULL;
    Py_ssize_t count = PySequence_Size(args[0]), others = PySequence_Size(args[1]);
    if (PyErr_Occurred() || !are_equal(others, count)) return NULL;
    PyObject *found = PyList_New(count);
    for (Py_ssize_t i = 0; found && i < count; i++) {
        PyObject *number = PySequence_GetItem(args[0], i);
        PyObject *score = number ? PySequence_GetItem(args[1], i) : NULL;
        PyObject *one = found_for((LookUp *)object, number, score);
        Py_XDECREF(number);
        Py_XDECREF(score);
        if (one == NULL || PyList_SetItem(found, i, one) < 0) Py_CLEAR(found);
    }
    return found;
}

static int search_columns(const LookUp *self, const Py_buffer *given) {
    Py_ssize_t count = size_of(&given[0], 1);
    const int64_t *rows = given[0].buf;
    const double *scores = given[1].buf;
    double *found = given[2].buf;
    if (!are_equal(size_of(&given[1], 1), count) || !are_equal(size_of(&given[2], 1), count)
        || !are_rows(self->count, rows, count))
        return -1;
    PyThreadState *state = count < LONG ? NULL : PyEval_SaveThread();
    for (Py_ssize_t i = 0; i < count; i += AT_ONCE)
        search(self, rows + i, scores + i, found + i, count - i < AT_ONCE ? count - i : AT_ONCE);
    if (state) PyEval_RestoreThread(state);
    return 0;
}

static PyObject *look_up(PyObject *object, PyObject *const *args, Py_ssize_t n) {
    Py_buffer given[3] = {0};
    int done = are(n, 3) && read_columns(args, given, "qdD") == 0
               && search_columns((LookUp *)object, given) == 0;
    return released(given, 3, done ? Py_NewRef(Py_None) : NULL);
}

/* At which log-odds of the score standard deviations are known: from low on, so many to one of
   them; the scores of the first and of the last. */
typedef struct { double low, scale, lowest, highest; } Grid;

enum { SPREADS, GRID, ROWS, SCORES, PROBABILITIES, VARIANCES, FACTORS, FOUND, GIVEN };

/* How far along the places of standard deviations a score is. */
static double along(const Grid *grid, double score) {
    double inside = score > grid->lowest ? score : grid->lowest;
    inside = inside < grid->highest ? inside : grid->highest;
    double places = (log(inside / (1.0 - inside)) - grid->low) * grid->scale;
    /* What is no number is in no place. */
    return places >= 0.0 && places < PLACES - 1 ? places : 0.0;
}

/* The standard deviations of maps' log-odds at scores. */
static void fill_deviations(const Py_buffer *given, Py_ssize_t from, Py_ssize_t count,
                            double *found) {
    const float *spreads = given[SPREADS].buf;
    const int64_t *rows = (const int64_t *)given[ROWS].buf + from;
    const double *scores = (const double *)given[SCORES].buf + from, *variances = NULL;
    float before[AT_ONCE], rises[AT_ONCE];
    for (Py_ssize_t i = 0; i < count; i++) found[i] = along(given[GRID].buf, scores[i]);
    for (Py_ssize_t i = 0; i < count; i++) {
        const float *at = spreads + rows[i] * PLACES + (int)found[i];
        before[i] = at[0];
        rises[i] = at[1] - at[0];
    }
    for (Py_ssize_t i = 0; i < count; i++)
        found[i] = before[i] + (found[i] - (int)found[i]) * rises[i];
    if (given[VARIANCES].obj) variances = (const double *)given[VARIANCES].buf + from;
    for (Py_ssize_t i = 0; variances && i < count; i++)
        found[i] = sqrt(found[i] * found[i] + variances[i]);
}

static double quantile(double probability, double deviation, double factor) {
    if (factor == 0.0) return probability;
    double odds = exp(factor * deviation) * probability;
    double found = odds / ((1.0 - probability) + odds);
    if (factor < 0.0) return found < probability ? found : probability;
    return found > probability ? found : probability;
}

static void fill_columns(const Py_buffer *given) {
    const double *probabilities = given[PROBABILITIES].buf, *factors = given[FACTORS].buf;
    Py_ssize_t count = size_of(&given[ROWS], 1), levels = size_of(&given[FACTORS], 1);
    double *found = given[FOUND].buf, deviations[AT_ONCE];
    for (Py_ssize_t from = 0; from < count; from += AT_ONCE) {
        Py_ssize_t some = count - from < AT_ONCE ? count - from : AT_ONCE;
        fill_deviations(given, from, some, deviations);
        for (Py_ssize_t level = 0; level < levels; level++)
            for (Py_ssize_t i = 0; i < some; i++)
                found[level * count + from + i]
                    = quantile(probabilities[from + i], deviations[i], factors[level]);
    }
}

static int are_quantiles(const Py_buffer *given) {
    Py_ssize_t count = size_of(&given[ROWS], 1), levels = size_of(&given[FACTORS], 1);
    return are_equal(size_of(&given[SCORES], 1), count)
           && are_equal(size_of(&given[PROBABILITIES], 1), count)
           && (!given[VARIANCES].obj || are_equal(size_of(&given[VARIANCES], 1), count))
           && are_equal(size_of(&given[GRID], 1), 4)
           && are_equal(size_of(&given[FOUND], 1), levels * count)
           && are_rows(size_of(&given[SPREADS], PLACES), given[ROWS].buf, count);
}

static PyObject *fill_quantiles(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    Py_buffer given[GIVEN] = {0};
    int done = are(n, GIVEN) && read_columns(args, given, "FdqddvdD") == 0 && are_quantiles(given);
    if (done) fill_columns(given);
    return released(given, GIVEN, done ? Py_NewRef(Py_None) : NULL);
}

/* Where a text stands in an array of JSON. */
typedef struct { uint32_t start, length; } Place;

/* The places of the texts of an array, all of 1 to so many bytes; how many, or 0 of anything else.
   There is room for one of every four bytes. */
static Py_ssize_t find_places(const Py_buffer *json, Py_ssize_t longest, Place *places) {
    const char *start = json->buf, *at = start, *end = at + json->len, *text, *quote;
    Py_ssize_t count = 0;
    for (char before = '['; at < end && *at == before; before = ',', count++) {
        for (text = at + 1; text < end && *text == ' ';) text++;
        if (text == end || *text++ != '"' || !(quote = memchr(text, '"', end - text))) return 0;
        if (quote == text || quote - text > longest) return 0;
        places[count] = (Place){(uint32_t)(text - start), (uint32_t)(quote - text)};
        for (at = quote + 1; at < end && *at == ' ';) at++;
    }
    return end - at == 1 && *at == ']' ? count : 0;
}

/* Whether all stands in an array as it is: without escapes, in ASCII, and not too long. */
FOR_EACH_KIND
static int is_plain(const Py_buffer *json) {
    const unsigned char *text = json->buf, *end = text + json->len;
    unsigned char odd = 0;
    for (; text < end; text++) odd |= (*text < ' ') | (*text == '\\') | (*text >> 7);
    return !odd && json->len <= UINT32_MAX;
}

/* The places of the texts of an array, all of 1 to so many bytes; no bytes of anything else. */
static PyObject *find_texts(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    Py_buffer json;
    Py_ssize_t longest = are(n, 2) ? PyLong_AsSsize_t(args[1]) : -1;
    if (PyErr_Occurred() || PyObject_GetBuffer(args[0], &json, PyBUF_SIMPLE) < 0) return NULL;
    Place *places = PyMem_Malloc((json.len / 4 + 1) * sizeof(Place));
    Py_ssize_t count = places && is_plain(&json) ? find_places(&json, longest, places) : 0;
    PyObject *found = places ? PyBytes_FromStringAndSize((char *)places, count * sizeof(Place))
                             : PyErr_NoMemory();
    PyMem_Free(places);
    return released(&json, 1, found);
}

enum { ARRAY, STANDING, OF_TEXTS };

/* The array of texts left in JSON, and where they stand in it: so many, and none beyond it. */
static int read_texts(PyObject *texts, Py_buffer *given, Py_ssize_t count) {
    static const char *const names[] = {"array", "places"};
    for (int i = 0; texts && i < OF_TEXTS; i++) {
        PyObject *from = PyObject_GetAttrString(texts, names[i]);
        int done = from && PyObject_GetBuffer(from, &given[i], PyBUF_SIMPLE) == 0;
        Py_XDECREF(from);
        if (!done) return 0;
    }
    if (!texts || !are_equal(given[STANDING].len, count * (Py_ssize_t)sizeof(Place))) return 0;
    const Place *places = given[STANDING].buf;
    uint64_t last = 0, end;
    for (Py_ssize_t i = 0; i < count; i++)
        if ((end = (uint64_t)places[i].start + places[i].length) > last) last = end;
    return are_equal(last > (uint64_t)given[ARRAY].len, 0);
}

/* Writes the row of each, 0 of one that is not known; whether all are. */
static int fill_rows(const Names *self, const Py_buffer *given, int64_t *rows, Py_ssize_t count) {
    const Place *places = given[STANDING].buf;
    Text texts[AT_ONCE];
    int known = 1;
    for (Py_ssize_t from = 0, some; from < count; from += some) {
        for (some = 0; some < AT_ONCE && from + some < count; some++) {
            const char *start = (const char *)given[ARRAY].buf + places[from + some].start;
            Py_ssize_t length = places[from + some].length;
            texts[some] = (Text){start, length, hash_of(start, length)};
        }
        known &= fill_some(self, texts, some, rows + from);
    }
    return known;
}

/* As `fill`, of texts that are left in JSON. */
static PyObject *fill_json(PyObject *object, PyObject *const *args, Py_ssize_t n) {
    Py_buffer to, given[OF_TEXTS] = {0};
    if (!are(n, 2) || read_column(args[1], &to, "lq", 1, PyBUF_WRITABLE) < 0) return NULL;
    PyObject *known = NULL;
    if (read_texts(args[0], given, size_of(&to, 1)))
        known = PyBool_FromLong(fill_rows((Names *)object, given, to.buf, size_of(&to, 1)));
    PyBuffer_Release(&to);
    return released(given, OF_TEXTS, known);
}

/* Each number by what the column has at the place of its text, or last. */
static int multiply_by(PyObject *texts, PyObject *names, PyObject *by, int64_t *rows,
                       const Py_buffer *found) {
    Py_buffer column = {0}, given[OF_TEXTS] = {0};
    Py_ssize_t count = size_of(found, 1), last = are_names(names) ? names_length(names) : -1;
    double *numbers = found->buf;
    int done = last >= 0 && read_columns(&by, &column, "d") == 0
               && are_equal(size_of(&column, 1), last + 1) && read_texts(texts, given, count);
    const double *effects = column.buf;
    if (done) fill_rows((Names *)names, given, rows, count);
    for (Py_ssize_t i = 0; done && i < count; i++)
        numbers[i] *= effects[rows[i] && rows[i] <= last ? rows[i] - 1 : last];
    released(given, OF_TEXTS, NULL);
    released(&column, 1, NULL);
    return done;
}

/* Writes the products of what columns say of texts that are left in JSON, or the probabilities
   whose odds are multiplied by them. */
static PyObject *fill_products(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    Py_buffer given[2] = {0};
    int done = are(n, 5) && read_columns(args + 3, given, "Dv") == 0
               && (!given[1].obj || are_equal(size_of(&given[1], 1), size_of(&given[0], 1)));
    double *found = given[0].buf, *probabilities = given[1].buf;
    Py_ssize_t count = done ? size_of(&given[0], 1) : 0, all = done ? PyTuple_Size(args[0]) : -1;
    int64_t *rows = PyMem_Malloc(count * sizeof(int64_t));
    if (rows == NULL) done = PyErr_NoMemory() != NULL;
    for (Py_ssize_t i = 0; i < count; i++) found[i] = 1.0;
    for (Py_ssize_t i = 0; done && i < all; i++) {
        PyObject *names = PyTuple_GetItem(args[1], i), *column = PyTuple_GetItem(args[2], i);
        done = column && multiply_by(PyTuple_GetItem(args[0], i), names, column, rows, &given[0]);
    }
    PyMem_Free(rows);
    for (Py_ssize_t i = 0; probabilities && i < count; i++) {
        double raised = probabilities[i] * found[i];
        found[i] = raised / ((1.0 - probabilities[i]) + raised);
    }
    return released(given, 2, PyErr_Occurred() ? NULL : Py_NewRef(Py_None));
}

#define METHOD(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}

static PyMethodDef methods[] = {
    METHOD(at), METHOD(of_row), METHOD(look_up_few), METHOD(look_up), {NULL, NULL, 0, NULL}};

static PyMethodDef functions[] = {
    METHOD(fill_quantiles), METHOD(find_texts), METHOD(fill_products), {NULL, NULL, 0, NULL}};

static PyMethodDef methods_of_names[] = {
    METHOD(add), METHOD(get), METHOD(fill), METHOD(fill_json), METHOD(fill_packed),
    {NULL, NULL, 0, NULL}};

static PyType_Slot slots_of_names[] = {{Py_tp_doc, "The rows of the names of a tuple, from 1."},
                                       {Py_tp_new, names_new},
                                       {Py_tp_dealloc, names_dealloc},
                                       {Py_sq_length, names_length},
                                       {Py_tp_methods, methods_of_names},
                                       {0, NULL}};

static PyType_Spec of_names = {"_look_up.Names", sizeof(Names), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots_of_names};

static PyType_Slot slots[] = {{Py_tp_doc, "Maps that share their knots, behind names and rows."},
                              {Py_tp_new, look_up_new},
                              {Py_tp_dealloc, look_up_dealloc},
                              {Py_tp_methods, methods},
                              {0, NULL}};

static PyType_Spec of_type = {"_look_up.LookUp", sizeof(LookUp), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots};

static PyTypeObject *added(PyObject *module, PyType_Spec *spec, const char *name) {
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (type && PyModule_AddObjectRef(module, name, type) < 0) Py_CLEAR(type);
    return (PyTypeObject *)type;
}

static int fill_module(PyObject *module) {
    /* Kept for as long as the process lasts, as look-ups need it. */
    names_type = added(module, &of_names, "Names");
    PyTypeObject *type = names_type ? added(module, &of_type, "LookUp") : NULL;
    Py_XDECREF((PyObject *)type);
    return type ? 0 : -1;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, fill_module}, {0, NULL}};

static PyModuleDef of_module = {PyModuleDef_HEAD_INIT, .m_name = "_look_up",
                                .m_methods = functions, .m_slots = module_slots};

PyMODINIT_FUNC PyInit__look_up(void) { return PyModuleDef_Init(&of_module); }
