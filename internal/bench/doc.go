// Package bench measures the service as it is run: the real binary as a process of its
// own over a real database, with the load and the receivers in this process. Every
// scenario says what it asserts, and its figures count only where that is true.
package bench
