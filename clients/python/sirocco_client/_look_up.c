/* The look-up of an edge atlas, compiled: what `PlainLookUp` in maps.py does, to the last bit.

   Optional. Where no compiler was, `maps.py` does the same in Python. Built for CPython's limited
   API, so that one file serves every version from 3.11 on, and without contracted operations (a
   multiplication and an addition rounded once), which would give other bits.

   All columns are checked when a look-up is made. After that a row within bounds leads to no place
   beyond them, so that the loops need no checks of their own. */

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* Scores that are searched side by side: each waits for memory while the others do. */
#define AT_ONCE 32

/* From here on other threads may run meanwhile. */
#define LONG 1024

enum { FIRSTS, LENGTHS, SHIFTS, KNOTS, VALUES, SLOPES, COLUMNS };

typedef struct {
    PyObject_HEAD
    PyObject *rows;
    Py_buffer columns[COLUMNS];
    int64_t count;
    const int64_t *firsts, *lengths, *shifts;
    const double *knots, *values, *slopes;
} LookUp;

static Py_ssize_t size_of(const Py_buffer *column) { return column->len / 8; }

/* A column of int64 ("lq") or float64 ("d"); -1 with an exception on anything else. */
static int read_column(PyObject *from, Py_buffer *column, const char *kinds, int flags) {
    if (PyObject_GetBuffer(from, column, PyBUF_ND | PyBUF_FORMAT | flags) < 0) {
        column->obj = NULL;
        return -1;
    }
    char kind = column->format ? column->format[0] : '\0';
    if (column->ndim == 1 && column->itemsize == 8 && kind && strchr(kinds, kind)) return 0;
    PyBuffer_Release(column);
    PyErr_Format(PyExc_TypeError, "a column of eight bytes, of kind %s, is required", kinds);
    return -1;
}

/* Whether no row leads beyond the knots, or the values, that there are. */
static int leads_inside(const LookUp *self) {
    int64_t knots = size_of(&self->columns[KNOTS]), values = size_of(&self->columns[VALUES]);
    for (int64_t row = 0; row < self->count; row++) {
        int64_t first = self->firsts[row], length = self->lengths[row], shift = self->shifts[row];
        if (length < 1 || length > knots || first < 0 || first > knots - length) return 0;
        if (length > values || shift < -first || shift > values - length - first) return 0;
    }
    return 1;
}

static int take_columns(LookUp *self, PyObject *const *given) {
    for (int each = 0; each < COLUMNS; each++)
        if (read_column(given[each], &self->columns[each], each < KNOTS ? "lq" : "d", 0) < 0)
            return -1;
    self->firsts = self->columns[FIRSTS].buf;
    self->lengths = self->columns[LENGTHS].buf;
    self->shifts = self->columns[SHIFTS].buf;
    self->knots = self->columns[KNOTS].buf;
    self->values = self->columns[VALUES].buf;
    self->slopes = self->columns[SLOPES].buf;
    self->count = size_of(&self->columns[FIRSTS]);
    if (size_of(&self->columns[LENGTHS]) == self->count
        && size_of(&self->columns[SHIFTS]) == self->count
        && size_of(&self->columns[VALUES]) == size_of(&self->columns[SLOPES])
        && leads_inside(self))
        return 0;
    PyErr_SetString(PyExc_ValueError, "maps: a row leads beyond the columns");
    return -1;
}

static PyObject *look_up_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(named)) {
    PyObject *rows, *given[COLUMNS];
    if (!PyArg_ParseTuple(args, "O!(OOOOOO)", &PyDict_Type, &rows, &given[FIRSTS], &given[LENGTHS],
                          &given[SHIFTS], &given[KNOTS], &given[VALUES], &given[SLOPES]))
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
    for (int each = 0; each < COLUMNS; each++) PyBuffer_Release(&self->columns[each]);
    Py_XDECREF(self->rows);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static double line(const LookUp *self, int64_t row, int64_t place, double score) {
    int64_t at = place + self->shifts[row];
    return self->values[at] + self->slopes[at] * (score - self->knots[place]);
}

/* By halving, without a branch: which way a step goes cannot be foreseen. */
static double found_in(const LookUp *self, int64_t row, double score) {
    int64_t place = self->firsts[row], length = self->lengths[row];
    while (length > 1) {
        int64_t half = length >> 1;
        place += half * (self->knots[place + half] <= score);
        length -= half;
    }
    return line(self, row, place, score);
}

static void search(const LookUp *self, const int64_t *rows, const double *scores, double *found,
                   Py_ssize_t count) {
    int64_t places[AT_ONCE], lengths[AT_ONCE], longest = 1;
    for (Py_ssize_t i = 0; i < count; i++) {
        places[i] = self->firsts[rows[i]];
        lengths[i] = self->lengths[rows[i]];
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

static int are_rows(const LookUp *self, const int64_t *rows, Py_ssize_t count) {
    int outside = 0;
    /* One below 0 is larger than all others, as it is read here. */
    for (Py_ssize_t i = 0; i < count; i++) outside |= (uint64_t)rows[i] >= (uint64_t)self->count;
    if (!outside) return 1;
    PyErr_SetString(PyExc_IndexError, "maps: a row beyond the last");
    return 0;
}

static int are(Py_ssize_t found, Py_ssize_t expected) {
    if (found == expected) return 1;
    PyErr_Format(PyExc_TypeError, "%zd arguments are required, not %zd", expected, found);
    return 0;
}

static PyObject *at(PyObject *object, PyObject *const *args, Py_ssize_t n) {
    LookUp *self = (LookUp *)object;
    if (!are(n, 2)) return NULL;
    PyObject *row = PyDict_GetItemWithError(self->rows, args[0]);
    if (row == NULL) return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    if (!PyFloat_Check(args[1])) Py_RETURN_NONE;
    double score = PyFloat_AsDouble(args[1]);
    if (!(score >= 0.0 && score <= 1.0)) Py_RETURN_NONE;
    int64_t number = PyLong_AsLongLong(row);
    if ((number == -1 && PyErr_Occurred()) || !are_rows(self, &number, 1)) return NULL;
    return PyFloat_FromDouble(found_in(self, number, score));
}

static PyObject *of_row(PyObject *object, PyObject *const *args, Py_ssize_t n) {
    LookUp *self = (LookUp *)object;
    if (!are(n, 2)) return NULL;
    int64_t row = PyLong_AsLongLong(args[0]);
    double score = PyFloat_AsDouble(args[1]);
    if (PyErr_Occurred() || !are_rows(self, &row, 1)) return NULL;
    return PyFloat_FromDouble(found_in(self, row, score));
}

/* Of one name; 0 of an unknown one, -1 with an exception. */
static int64_t row_of(const LookUp *self, PyObject *names, Py_ssize_t place) {
    PyObject *name = PyList_GetItem(names, place);
    if (name == NULL) return -1;
    /* Held meanwhile: a name with an __eq__ of its own may change the list. */
    Py_INCREF(name);
    PyObject *row = PyDict_GetItemWithError(self->rows, name);
    Py_DECREF(name);
    if (row == NULL) return PyErr_Occurred() ? -1 : 0;
    return PyLong_AsLongLong(row);
}

static PyObject *fill_rows(PyObject *object, PyObject *const *args, Py_ssize_t n) {
    LookUp *self = (LookUp *)object;
    Py_buffer to;
    if (!are(n, 2) || read_column(args[1], &to, "lq", PyBUF_WRITABLE) < 0) return NULL;
    int64_t *rows = to.buf;
    Py_ssize_t count = size_of(&to), known = 0, i = 0;
    for (; i < count; i++) {
        rows[i] = row_of(self, args[0], i);
        if (rows[i] < 0) break;
        known += rows[i] > 0;
    }
    PyBuffer_Release(&to);
    return i < count ? NULL : PyBool_FromLong(known == count);
}

static void search_all(const LookUp *self, const Py_buffer *rows, const Py_buffer *scores,
                       const Py_buffer *found) {
    Py_ssize_t count = size_of(rows);
    for (Py_ssize_t from = 0; from < count; from += AT_ONCE)
        search(self, (const int64_t *)rows->buf + from, (const double *)scores->buf + from,
               (double *)found->buf + from, count - from < AT_ONCE ? count - from : AT_ONCE);
}

static int search_columns(const LookUp *self, const Py_buffer *rows, const Py_buffer *scores,
                          const Py_buffer *found) {
    Py_ssize_t count = size_of(rows);
    if (size_of(scores) != count || size_of(found) != count) {
        PyErr_SetString(PyExc_ValueError, "maps: columns of unequal lengths");
        return -1;
    }
    if (!are_rows(self, rows->buf, count)) return -1;
    if (count < LONG) {
        search_all(self, rows, scores, found);
        return 0;
    }
    Py_BEGIN_ALLOW_THREADS
    search_all(self, rows, scores, found);
    Py_END_ALLOW_THREADS
    return 0;
}

static PyObject *look_up(PyObject *object, PyObject *const *args, Py_ssize_t n) {
    Py_buffer rows = {0}, scores = {0}, found = {0};
    int done = -1;
    if (are(n, 3) && read_column(args[0], &rows, "lq", 0) == 0
        && read_column(args[1], &scores, "d", 0) == 0
        && read_column(args[2], &found, "d", PyBUF_WRITABLE) == 0)
        done = search_columns((LookUp *)object, &rows, &scores, &found);
    PyBuffer_Release(&rows);
    PyBuffer_Release(&scores);
    PyBuffer_Release(&found);
    return done < 0 ? NULL : Py_NewRef(Py_None);
}

#define METHOD(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}

static PyMethodDef methods[] = {
    METHOD(at), METHOD(of_row), METHOD(fill_rows), METHOD(look_up), {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_doc, "See `PlainLookUp` in sirocco_client.maps."},
                              {Py_tp_new, look_up_new},
                              {Py_tp_dealloc, look_up_dealloc},
                              {Py_tp_methods, methods},
                              {0, NULL}};

static PyType_Spec of_type = {"sirocco_client._look_up.LookUp", sizeof(LookUp), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots};

static int fill_module(PyObject *module) {
    PyObject *type = PyType_FromModuleAndSpec(module, &of_type, NULL);
    if (type == NULL) return -1;
    int done = PyModule_AddObjectRef(module, "LookUp", type);
    Py_DECREF(type);
    return done;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, fill_module}, {0, NULL}};

static PyModuleDef of_module = {.m_base = PyModuleDef_HEAD_INIT,
                                .m_name = "sirocco_client._look_up",
                                .m_slots = module_slots};

PyMODINIT_FUNC PyInit__look_up(void) { return PyModuleDef_Init(&of_module); }
