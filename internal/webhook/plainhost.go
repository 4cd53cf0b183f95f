package webhook

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// Bounds of a name (RFC 1035, 2.3.4), in bytes.
const (
	maxName  = 253
	maxLabel = 63
)

// plainHost is a host's plain spelling, in lower case and ASCII, and what is wrong with
// the one given. Where it can only be guessed what was meant, it is "".
//
// net/http maps full-width digits, circled ones and the like to ASCII before it dials,
// and some resolvers read 127.1, 0x7f000001 and 017700000001 as IPv4 addresses.
func plainHost(host string) (plain string, flaw error) {
	ascii, err := toASCII(host)
	if err != nil {
		return "", errors.New("does not name a host")
	}
	plain = strings.ToLower(ascii)
	if ascii != host && !international(host) {
		flaw = errors.New("spells its host with unusual characters")
	}
	if cut := strings.TrimSuffix(plain, "."); cut != plain {
		plain, flaw = cut, errors.New("must not end its host with a dot")
	}
	if err := checkLabels(plain); err != nil {
		return "", err
	}
	if _, err := netip.ParseAddr(plain); err == nil || !endsInNumber(plain) {
		return plain, flaw
	}
	addr, ok := readNumbers(plain)
	if !ok {
		return "", errors.New("does not name a host: it ends in a number, and is no IPv4 address of four decimal numbers, 0 to 255 each")
	}
	return addr.String(), errors.New("spells its host in an unusual way")
}

// toASCII leaves ASCII as it is, underscores and all, as net/http does.
func toASCII(host string) (string, error) {
	if isASCII(host) {
		return host, nil
	}
	return idna.Lookup.ToASCII(host)
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > '~' })
}

// international reports whether a host needs its characters: no label of it is ASCII in
// disguise.
func international(host string) bool {
	for label := range strings.SplitSeq(host, ".") {
		ascii, err := toASCII(label)
		if err != nil || !isASCII(label) && (!strings.HasPrefix(ascii, "xn--") || strings.Contains(ascii, ".")) {
			return false
		}
	}
	return true
}

// checkLabels takes underscores, which names in use have.
func checkLabels(name string) error {
	if len(name) > maxName {
		return fmt.Errorf("does not name a host: it is longer than %d characters", maxName)
	}
	for label := range strings.SplitSeq(name, ".") {
		switch {
		case label == "":
			return errors.New("does not name a host: a part between dots is empty")
		case len(label) > maxLabel:
			return fmt.Errorf("does not name a host: a part between dots is longer than %d characters", maxLabel)
		case strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "":
			return errors.New("does not name a host: it may hold letters, digits, hyphens and dots")
		}
	}
	return nil
}

// endsInNumber reports whether the last label is a number, decimal, octal or
// hexadecimal: no name ends so.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	digits := "0123456789"
	if rest, hex := strings.CutPrefix(last, "0x"); hex {
		last, digits = rest, "0123456789abcdef"
	}
	return strings.Trim(last, digits) == ""
}

// readNumbers reads an IPv4 address as inet_aton does: one to four numbers, decimal,
// octal or hexadecimal, of which the last fills the bytes that are left.
func readNumbers(name string) (netip.Addr, bool) {
	parts := strings.Split(name, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var all uint64
	for i, part := range parts {
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		n, err := strconv.ParseUint(cStyle(part), 0, bits)
		if err != nil {
			return netip.Addr{}, false
		}
		all = all<<bits | n
	}
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(all)))), true
}

// cStyle makes a number of C one of Go's that cannot hold underscores or 0b.
func cStyle(part string) string {
	switch rest, hex := strings.CutPrefix(part, "0x"); {
	case strings.Trim(rest, "0123456789abcdef") != "":
		return "no number"
	case hex, strings.Trim(part, "0123456789") == "":
		return part
	}
	return "no number"
}
