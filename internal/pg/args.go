package pg

import (
	"context"
	"fmt"
	"regexp"
	"sync"

	"github.com/jackc/pgx/v5"
)

// Args are the arguments of a statement by the names that it gives them, each as @name.
// They do what [pgx.NamedArgs] do, but that a statement's text is read once, and not each
// time that it is sent (a group of fires is sent no sooner than its statements are read, and
// others wait for it), and that none may be missing.
type Args map[string]any

// readings are the statements that were read before. They are as many as the program has,
// which makes no text of a statement while it runs.
var readings sync.Map // text -> *reading

// reading is a statement with its arguments by number, and their names in that order.
type reading struct {
	text  string
	names []string
}

// RewriteQuery implements [pgx.QueryRewriter].
func (a Args) RewriteQuery(ctx context.Context, conn *pgx.Conn, sql string, _ []any) (text string, values []any, err error) {
	known, ok := readings.Load(sql)
	if !ok {
		known, err = read(ctx, conn, sql)
		if err != nil {
			return "", nil, err
		}
	}
	r := known.(*reading)
	values = make([]any, len(r.names))
	for i, name := range r.names {
		if values[i], ok = a[name]; !ok {
			return "", nil, fmt.Errorf("a statement names an argument %q, which is not given", name)
		}
	}
	return r.text, values, nil
}

// read reads a statement and keeps what it found. Which argument stands where is told by
// giving each name itself as its value.
func read(ctx context.Context, conn *pgx.Conn, sql string) (*reading, error) {
	names := pgx.NamedArgs{}
	for _, found := range named.FindAllStringSubmatch(sql, -1) {
		names[found[1]] = found[1]
	}
	text, order, err := names.RewriteQuery(ctx, conn, sql, nil)
	if err != nil {
		return nil, err
	}
	r := &reading{text: text}
	for _, name := range order {
		r.names = append(r.names, name.(string))
	}
	readings.Store(sql, r)
	return r, nil
}

// named is whatever may be an argument. What is none, in a text or a comment, is not looked for.
var named = regexp.MustCompile(`@([a-zA-Z_][a-zA-Z0-9_]*)`)
