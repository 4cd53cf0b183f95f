package registry

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// plainName is an identifier that SQL reads the same with quotes and without.
var plainName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// CheckFunctionSchema says why no function of a schema can be a receiver, or nil.
func CheckFunctionSchema(name string) error {
	switch {
	case !plainName.MatchString(name):
		return fmt.Errorf("%q is no plain identifier: it must be 1 to 63 of a-z, 0-9 and _, not beginning with a digit", name)
	case name == "eventsvc", name == "information_schema", strings.HasPrefix(name, "pg_"):
		return fmt.Errorf("%s is no schema for functions of your own", name)
	}
	return nil
}

// checkFunction holds a function to its form and schema, and a declaration with one to
// what has a meaning there. Whether the function is there is asked when it is written.
func (d *Declaration) checkFunction(flaws *event.Flaws, schemas []string) {
	if d.Function == "" {
		if d.Role != "" {
			flaws.Add("/role", "has a meaning with function only")
		}
		return
	}
	schema, name, two := strings.Cut(d.Function, ".")
	if !two || !plainName.MatchString(schema) || !plainName.MatchString(name) {
		flaws.Add("/function", "must be schema.name, each of 1 to 63 of a-z, 0-9 and _, not beginning with a digit")
	} else if err := allowed(schema, schemas); err != nil {
		flaws.Add("/function", err.Error())
	}
	if d.Role != "" && (!plainName.MatchString(d.Role) || d.Role == "none") {
		flaws.Add("/role", "must be the name of a role, of 1 to 63 of a-z, 0-9 and _, not beginning with a digit")
	}
	for _, of := range []struct {
		pointer string
		given   bool
	}{{"/format", d.Format != ""}, {"/headers", len(d.Headers) > 0}, {"/permanent_statuses", d.PermanentStatuses != nil}, {"/trace", d.Trace != nil}} {
		if of.given {
			flaws.Add(of.pointer, "has no meaning with function: no request is made")
		}
	}
}

// allowed says which setting would let functions of a schema be receivers, or nil.
func allowed(schema string, schemas []string) error {
	if slices.Contains(schemas, schema) {
		return nil
	}
	return fmt.Errorf("is of the schema %s, whose functions may not be receivers here; EVENTSVC_FUNCTION_SCHEMAS=%s would allow it",
		schema, strings.Join(append(slices.Clone(schemas), schema), ","))
}

// calls says why a receiver's function, where it is one, is not called in this process, or
// nil: the setting may have changed since it was declared.
func (r *Registry) calls(to *event.Receiver) error {
	if to.Function == "" {
		return nil
	}
	schema, _, _ := strings.Cut(to.Function, ".")
	return allowed(schema, r.o.FunctionSchemas)
}

// findFunction refuses a declaration whose function or role is not there.
func findFunction(ctx context.Context, tx pgx.Tx, d *Declaration) error {
	if d.Function == "" {
		return nil
	}
	schema, name, _ := strings.Cut(d.Function, ".")
	var found, becomes bool
	if err := tx.QueryRow(ctx, sqlFindFunction, pg.Args{"schema": schema, "name": name, "role": d.Role}).Scan(&found, &becomes); err != nil {
		return fmt.Errorf("look for function %s: %w", d.Function, err)
	}
	var flaws event.Flaws
	if !found {
		flaws.Add("/function", fmt.Sprintf("is not there: the database has no function %s(event jsonb, context jsonb); create it first", d.Function))
	}
	if !becomes {
		flaws.Add("/role", fmt.Sprintf("is none that the service may become: create the role %s, or grant it to the service's own", d.Role))
	}
	return flaws.Err()
}
