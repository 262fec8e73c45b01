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

/* Bytes of a value of a field, and slots of others that may stand before that of a name. */
enum { LONGEST_TEXT = 256, MOST_STEPS = 128 };

enum { SPANS, KNOTS, SEGMENTS, COLUMNS };

typedef struct { int64_t first, length, shift; } Span;

typedef struct { double value, slope; } Segment;

typedef struct {
    PyObject_HEAD
    PyObject *rows;
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

/* A column with rows of so many numbers: int64 ("lq"), float64 ("d") or float32 ("f"); -1 with an
   exception on anything else. */
static int read_column(PyObject *from, Py_buffer *column, const char *kinds, int wide, int flags) {
    if (PyObject_GetBuffer(from, column, PyBUF_ND | PyBUF_FORMAT | flags) < 0) {
        column->obj = NULL;
        return -1;
    }
    char kind = column->format ? column->format[0] : '\0';
    int is_shaped = wide == 1 ? column->ndim == 1 : column->ndim == 2 && column->shape[1] == wide;
    if (is_shaped && column->itemsize == (*kinds == 'f' ? 4 : 8) && kind && strchr(kinds, kind))
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
    PyObject *rows, *given[COLUMNS];
    if (!PyArg_ParseTuple(args, "O!(OOO)", &PyDict_Type, &rows, &given[SPANS], &given[KNOTS],
                          &given[SEGMENTS]))
        return NULL;
    LookUp *self = (LookUp *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL) return NULL;
    self->rows = Py_NewRef(rows);
    if (take_columns(self, given) == 0) return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static void look_up_dealloc(PyObject *object) {
    LookUp *self = (LookUp *)object;
    PyTypeObject *type = Py_TYPE(object);
    released(self->columns, COLUMNS, NULL);
    Py_XDECREF(self->rows);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
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

static PyObject *found_for(const LookUp *self, PyObject *number, PyObject *score) {
    if (number == NULL || score == NULL) return NULL;
    int64_t row = PyLong_AsLongLong(number);
    double asked = PyFloat_AsDouble(score);
    if (PyErr_Occurred() || !are_rows(self->count, &row, 1)) return NULL;
    return PyFloat_FromDouble(found_in(self, row, asked));
}

static PyObject *at(PyObject *object, PyObject *const *args, Py_ssize_t n) {
    if (!are(n, 2)) return NULL;
    PyObject *row = PyDict_GetItemWithError(((LookUp *)object)->rows, args[0]);
    if (row == NULL) return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    if (!PyFloat_Check(args[1])) Py_RETURN_NONE;
    double score = PyFloat_AsDouble(args[1]);
    if (!(score >= 0.0 && score <= 1.0)) Py_RETURN_NONE;
    return found_for((LookUp *)object, row, args[1]);
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

/* Of one name; 0 of an unknown one, -1 with an exception. */
static int64_t row_of(PyObject *known, PyObject *names, Py_ssize_t place) {
    PyObject *name = PySequence_GetItem(names, place);
    if (name == NULL) return -1;
    PyObject *row = PyDict_GetItemWithError(known, name);
    Py_DECREF(name);
    if (row == NULL) return PyErr_Occurred() ? -1 : 0;
    return PyLong_AsLongLong(row);
}

/* Writes the row of each name by a dict of those that are known; whether all are. */
static PyObject *fill_rows(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    Py_buffer to;
    if (!are(n, 3) || read_column(args[2], &to, "lq", 1, PyBUF_WRITABLE) < 0) return NULL;
    int64_t *rows = to.buf;
    Py_ssize_t count = size_of(&to, 1), known = 0, i = 0;
    for (; i < count; i++) {
        rows[i] = row_of(args[0], args[1], i);
        if (rows[i] < 0) break;
        known += rows[i] > 0;
    }
    PyBuffer_Release(&to);
    return i < count ? NULL : PyBool_FromLong(known == count);
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

typedef struct {
    const char *name;
    uint32_t length, place;
} Slot;

/* Names by their hashes; the tuple keeps their texts. */
typedef struct {
    PyObject *names;
    Py_ssize_t count, mask;
    Slot slots[];
} Table;

/* The slot of a name, or a free one; NULL where too many others stand in its way. */
static Slot *slot_of(Table *self, const char *name, Py_ssize_t length) {
    uint64_t hash = 0, some = 0;
    for (Py_ssize_t from = 0; from < length; from += 8, some = 0) {
        memcpy(&some, name + from, length - from < 8 ? length - from : 8);
        some *= 0x9e3779b97f4a7c15u;
        hash = (hash ^ some ^ some >> 47) * 0x9e3779b97f4a7c15u;
    }
    for (int step = 0; step < MOST_STEPS; step++) {
        Slot *at = self->slots + (((hash >> 32) + step) & self->mask);
        if (at->name == NULL) return at;
        if (at->length == length && memcmp(at->name, name, length) == 0) return at;
    }
    return NULL;
}

static void free_table(PyObject *capsule) {
    Table *self = PyCapsule_GetPointer(capsule, "names");
    Py_DECREF(self->names);
    PyMem_Free(self);
}

/* A table of the names of a tuple; ValueError where too many of their hashes are alike. */
static PyObject *table_of(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    Py_ssize_t count = are(n, 1) ? PyTuple_Size(args[0]) : -1, size = 4, length;
    if (count < 0) return NULL;
    while (size < 2 * count) size *= 2;
    Table *self = PyMem_Calloc(1, sizeof(Table) + size * sizeof(Slot));
    PyObject *capsule = self ? PyCapsule_New(self, "names", free_table) : PyErr_NoMemory();
    if (capsule) *self = (Table){Py_NewRef(args[0]), count, size - 1};
    for (Py_ssize_t i = 0; capsule && i < count; i++) {
        const char *name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(args[0], i), &length);
        Slot *at = name ? slot_of(self, name, length) : NULL;
        if (at) *at = (Slot){name, (uint32_t)length, (uint32_t)i};
        else Py_CLEAR(capsule);
        if (name && !at) PyErr_SetString(PyExc_ValueError, "names: too many hashes are alike");
    }
    return capsule;
}

/* How many texts, all of 1 to 256 bytes, an array has, up to so many; 0 of anything else. With a
   table each multiplies a number by what the column has at its place, or last. */
static Py_ssize_t texts_in(const Py_buffer *json, Py_ssize_t most, Table *table,
                           const double *column, double *found) {
    const char *at = json->buf, *end = at + json->len, *text, *quote;
    Py_ssize_t count = 0;
    for (char before = '['; at < end && *at == before && count < most; before = ',', count++) {
        for (text = at + 1; text < end && *text == ' ';) text++;
        if (text == end || *text++ != '"' || !(quote = memchr(text, '"', end - text))) return 0;
        if (quote == text || quote - text > LONGEST_TEXT) return 0;
        for (at = quote + 1; at < end && *at == ' ';) at++;
        if (table == NULL) continue;
        const Slot *slot = slot_of(table, text, quote - text);
        found[count] *= column[slot && slot->name ? slot->place : table->count];
    }
    return end - at == 1 && *at == ']' ? count : 0;
}

/* The same, where they are what stands between their quotes: without escapes, in ASCII. */
FOR_EACH_KIND
static PyObject *count_texts(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    Py_buffer json;
    unsigned char odd = 0;
    if (!are(n, 1) || PyObject_GetBuffer(args[0], &json, PyBUF_SIMPLE) < 0) return NULL;
    const unsigned char *text = json.buf, *end = text + json.len;
    for (; text < end; text++) odd |= (*text < ' ') | (*text == '\\') | (*text >> 7);
    Py_ssize_t count = odd ? 0 : texts_in(&json, PY_SSIZE_T_MAX, NULL, NULL, NULL);
    return released(&json, 1, PyLong_FromSsize_t(count));
}

static int multiply_by(PyObject *array, PyObject *names, PyObject *column, const Py_buffer *found) {
    Py_buffer given[2] = {0};
    Py_ssize_t count = size_of(found, 1);
    Table *table = names ? PyCapsule_GetPointer(names, "names") : NULL;
    int done = table && PyObject_GetBuffer(array, &given[0], PyBUF_SIMPLE) == 0
               && read_columns(&column, &given[1], "d") == 0
               && are_equal(size_of(&given[1], 1), table->count + 1)
               && are_equal(texts_in(&given[0], count, table, given[1].buf, found->buf), count);
    released(given, 2, NULL);
    return done;
}

/* Writes the products of what columns say of the texts of arrays, or the probabilities whose odds
   are multiplied by them. */
static PyObject *fill_products(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    Py_buffer given[2] = {0};
    int done = are(n, 5) && read_columns(args + 3, given, "Dv") == 0
               && (!given[1].obj || are_equal(size_of(&given[1], 1), size_of(&given[0], 1)));
    double *found = given[0].buf, *probabilities = given[1].buf;
    Py_ssize_t count = done ? size_of(&given[0], 1) : 0, all = done ? PyTuple_Size(args[0]) : -1;
    for (Py_ssize_t i = 0; i < count; i++) found[i] = 1.0;
    for (Py_ssize_t i = 0; done && i < all; i++) {
        PyObject *names = PyTuple_GetItem(args[1], i), *column = PyTuple_GetItem(args[2], i);
        done = column && multiply_by(PyTuple_GetItem(args[0], i), names, column, &given[0]);
    }
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
    METHOD(fill_rows), METHOD(fill_quantiles), METHOD(table_of), METHOD(count_texts),
    METHOD(fill_products), {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_doc, "Maps that share their knots, behind names and rows."},
                              {Py_tp_new, look_up_new},
                              {Py_tp_dealloc, look_up_dealloc},
                              {Py_tp_methods, methods},
                              {0, NULL}};

static PyType_Spec of_type = {"_look_up.LookUp", sizeof(LookUp), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots};

static int fill_module(PyObject *module) {
    PyObject *type = PyType_FromModuleAndSpec(module, &of_type, NULL);
    if (type == NULL) return -1;
    int done = PyModule_AddObjectRef(module, "LookUp", type);
    Py_DECREF(type);
    return done;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, fill_module}, {0, NULL}};

static PyModuleDef of_module = {PyModuleDef_HEAD_INIT, .m_name = "_look_up",
                                .m_methods = functions, .m_slots = module_slots};

PyMODINIT_FUNC PyInit__look_up(void) { return PyModuleDef_Init(&of_module); }
