package registry

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// Bounds of matches() in a filter. CEL counts a match once it is over, and by the length of
// the pattern's text, which says little: x{1000} is seven bytes and a thousand steps for each
// byte that it is held against.
const (
	maxPattern = 2000      // instructions that a pattern compiles to
	matchWork  = 4_000_000 // instructions times bytes, some ten milliseconds
)

// onlySmallPatterns refuses patterns that are not written in the filter itself, and those
// that are too large.
func onlySmallPatterns(text string, of *ast.AST) (err error) {
	ast.PreOrderVisit(of.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if err != nil || e.Kind() != ast.CallKind || e.AsCall().FunctionName() != overloads.Matches {
			return
		}
		args := e.AsCall().Args()
		pattern := args[len(args)-1]
		wrong := errors.New("the pattern of matches must be written in the filter: a text in quotes")
		if pattern.Kind() == ast.LiteralKind {
			if literal, ok := pattern.AsLiteral().Value().(string); ok {
				_, wrong = patternSize(literal)
			}
		}
		if wrong != nil {
			at := of.SourceInfo().GetStartLocation(pattern.ID())
			err = errors.New(caret(text, at.Line(), at.Column(), wrong.Error()))
		}
	}))
	return err
}

// patternSize is how many instructions a pattern compiles to.
func patternSize(pattern string) (int, error) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0, err
	}
	if n := len(program.Inst); n > maxPattern {
		return 0, fmt.Errorf("the pattern compiles to %d instructions; at most %d are allowed", n, maxPattern)
	}
	return len(program.Inst), nil
}

// errTooMuchToMatch reads like CEL's own word for it.
var errTooMuchToMatch = errors.New("cost limit exceeded by a match")

// boundedMatches are both forms of matches(), text.matches(pattern) and matches(text,
// pattern), which count their work before it is done. They are told by their overloads, as
// CEL's own way of doing so takes the function.
func boundedMatches() (both []*interpreter.RegexOptimization) {
	for _, form := range []string{overloads.MatchesString, overloads.Matches} {
		both = append(both, &interpreter.RegexOptimization{Function: overloads.Matches, OverloadID: form, RegexIndex: 1, Factory: boundedMatch})
	}
	return both
}

func boundedMatch(call interpreter.InterpretableCall, pattern string) (interpreter.InterpretableCall, error) {
	size, err := patternSize(pattern)
	if err != nil {
		return nil, err
	}
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("compile a pattern: %w", err)
	}
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(values ...ref.Val) ref.Val {
		text, ok := values[0].Value().(string)
		switch {
		case !ok:
			return types.MaybeNoSuchOverloadErr(values[0])
		case len(text)*size > matchWork:
			return types.WrapErr(errTooMuchToMatch)
		}
		return types.Bool(compiled.MatchString(text))
	}), nil
}
