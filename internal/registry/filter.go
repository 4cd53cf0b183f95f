package registry

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/spelling"
)

// Bounds of a filter. Its cost is counted in steps of CEL, which is deterministic: the same
// event and filter come to the same answer on any machine, at any load.
const (
	maxFilter  = 4096 // bytes
	filterCost = 20_000
)

// Filter is a condition on an event, in CEL (https://cel.dev) over the variable event. It
// is safe for concurrent use.
type Filter struct{ program cel.Program }

// filterLanguage is CEL as filters have it: its standard library without the macro map,
// which a condition has no use for, and which builds what is not counted before it ends.
var filterLanguage = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("event", cel.MapType(cel.StringType, cel.DynType)),
		cel.CrossTypeNumericComparisons(true),
		cel.ClearMacros(),
		cel.Macros(cel.HasMacro, cel.AllMacro, cel.ExistsMacro, cel.ExistsOneMacro, cel.FilterMacro),
	)
})

// CompileFilter reads a filter. Its error shows the place with a caret.
func CompileFilter(text string) (*Filter, error) {
	if len(text) > maxFilter {
		return nil, fmt.Errorf("is %d bytes long; at most %d are allowed", len(text), maxFilter)
	}
	language, err := filterLanguage()
	if err != nil {
		return nil, fmt.Errorf("cannot be compiled: %w", err)
	}
	compiled, issues := language.Compile(text)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		return nil, errors.New(caret(text, first.Location.Line(), first.Location.Column(), shortened(first.Message)))
	}
	if err := onlyKnown(text, compiled.NativeRep()); err != nil {
		return nil, err
	}
	if err := onlySmallPatterns(text, compiled.NativeRep()); err != nil {
		return nil, err
	}
	if kind := compiled.OutputType(); !kind.IsExactType(types.BoolType) && !kind.IsExactType(types.DynType) {
		return nil, fmt.Errorf("is of type %s; a filter is true or false", cel.FormatCELType(kind))
	}
	program, err := language.Program(compiled, cel.EvalOptions(cel.OptOptimize), cel.OptimizeRegex(boundedMatches()...), cel.CostLimit(filterCost))
	if err != nil {
		return nil, fmt.Errorf("cannot be compiled: %w", err)
	}
	return &Filter{program: program}, nil
}

// shortened is a message without the list of all that the grammar would have taken.
func shortened(message string) string {
	message, _, _ = strings.Cut(message, ", expecting {")
	message, _, _ = strings.Cut(message, " expecting {")
	return message
}

// caret shows where something is wrong: line counts from 1, column from 0, in code points.
func caret(text string, line, column int, what string) string {
	lines := strings.Split(text, "\n")
	if line < 1 || line > len(lines) {
		return "does not compile: " + what
	}
	return fmt.Sprintf("does not compile: line %d, column %d: %s\n%s\n%s^", line, max(column, 0)+1, what, lines[line-1], strings.Repeat(" ", max(column, 0)))
}

// onlyKnown refuses a field of event that there never is.
func onlyKnown(text string, of *ast.AST) (err error) {
	ast.PreOrderVisit(of.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if err != nil || e.Kind() != ast.SelectKind {
			return
		}
		operand, field := e.AsSelect().Operand(), e.AsSelect().FieldName()
		if operand.Kind() == ast.IdentKind && operand.AsIdent() == "event" && !slices.Contains(filterFields, field) {
			at := of.SourceInfo().GetStartLocation(e.ID())
			err = errors.New(caret(text, at.Line(), at.Column(), fmt.Sprintf("an event has no field %q%s; it has %s", field, spelling.DidYouMean(field, filterFields), strings.Join(filterFields, ", "))))
		}
	}))
	return err
}

// Judge is whether an occasion meets the condition. What the event does not have is no
// error: such an event does not meet it. Any other error is the filter's own, and no match
// either: it must not keep an event from those who want it.
func (f *Filter) Judge(o *Occasion) (bool, error) {
	value, _, err := f.program.Eval(map[string]any{"event": o.fields()})
	switch {
	case err != nil && absent(err):
		return false, nil
	case err != nil:
		return false, err
	}
	met, ok := value.Value().(bool)
	if !ok {
		return false, fmt.Errorf("came to a %s, and a filter is true or false", value.Type().TypeName())
	}
	return met, nil
}

// absences are how CEL begins to say that a field or an entry is not there; a list has no
// fields.
var absences = []string{"no such key", "no such attribute", "index out of bounds", "unsupported index type"}

func absent(err error) bool {
	return slices.ContainsFunc(absences, func(words string) bool { return strings.HasPrefix(err.Error(), words) })
}

func checkFilter(flaws *event.Flaws, text string) {
	if text == "" {
		return
	}
	if _, err := CompileFilter(text); err != nil {
		flaws.Add("/filter", err.Error())
	}
}
