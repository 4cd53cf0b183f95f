package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Report is what was seen, and on what.
type Report struct {
	Version   string     `json:"version"`
	Began     time.Time  `json:"began"`
	Quick     bool       `json:"quick"`
	Machine   Machine    `json:"machine"`
	Settings  []Setting  `json:"settings"`
	Scenarios []Scenario `json:"scenarios"`
}

// Machine is what everything ran on: the service, the load, the receivers, and the
// database where it is not elsewhere.
type Machine struct {
	OS   string  `json:"os"`
	Arch string  `json:"arch"`
	CPUs int     `json:"cpus"`
	Go   string  `json:"go"`
	Load float64 `json:"load"` // the load average of the minute before; 0 where it cannot be read
}

// Setting is one of the database server's.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Scenario is what one scenario came to.
type Scenario struct {
	Name    string   `json:"name"`
	About   string   `json:"about"`
	Asserts string   `json:"asserts"`
	Failure string   `json:"failure,omitempty"` // why its figures do not count
	Seconds float64  `json:"seconds"`
	Figures []Figure `json:"figures"`
}

// Figure is one number.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Failed are the names of scenarios whose assertion was false.
func (r *Report) Failed() (names []string) {
	for i := range r.Scenarios {
		if r.Scenarios[i].Failure != "" {
			names = append(names, r.Scenarios[i].Name)
		}
	}
	return names
}

// find is a figure of a scenario as it held last, or 0.
func (r *Report) find(scenario, name string) float64 {
	for i := len(r.Scenarios) - 1; i >= 0; i-- {
		if r.Scenarios[i].Name == scenario && r.Scenarios[i].Failure == "" {
			return r.Scenarios[i].figure(name)
		}
	}
	return 0
}

// figure is one of a scenario's, or 0.
func (s *Scenario) figure(name string) float64 {
	for _, f := range s.Figures {
		if f.Name == name {
			return f.Value
		}
	}
	return 0
}

// JSON writes the report as one object.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Table writes it for people.
func (r *Report) Table(out io.Writer) error {
	w := new(bytes.Buffer)
	fmt.Fprintf(w, "eventsvc %s, %s/%s, %d CPUs, %s, load %.2f before\n", r.Version, r.Machine.OS, r.Machine.Arch, r.Machine.CPUs, r.Machine.Go, r.Machine.Load)
	var settings []string
	for _, s := range r.Settings {
		settings = append(settings, s.Name+"="+s.Value)
	}
	fmt.Fprintf(w, "PostgreSQL %s\n", strings.Join(settings, " "))
	if r.Quick {
		fmt.Fprintln(w, "quick: too few rows and too short to say how fast anything is")
	}
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		fmt.Fprintf(w, "\n%s: %s\nasserted: %s\n", s.Name, s.About, s.Asserts)
		names, values := 0, 0
		for _, f := range s.Figures {
			names, values = max(names, utf8.RuneCountInString(f.Name)), max(values, len(number(f.Value)))
		}
		for _, f := range s.Figures {
			fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("  %-*s  %*s %s", names, f.Name, values, number(f.Value), f.Unit), " "))
		}
		if s.Failure != "" {
			fmt.Fprintln(w, "  FAILED:", s.Failure)
		}
	}
	_, err := w.WriteTo(out)
	return err
}

// number shows what a reader can use: no decimals of thousands, and no lack of them
// below one.
func number(v float64) string {
	switch {
	case v >= 100 || v <= -100:
		return thousands(strconv.FormatFloat(v, 'f', 0, 64))
	case v == float64(int64(v)):
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func thousands(digits string) string {
	for at := len(digits) - 3; at > 0 && digits[at-1] != '-'; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

func thisMachine() Machine {
	return Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version(), Load: loadAverage()}
}
