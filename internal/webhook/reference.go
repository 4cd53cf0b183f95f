package webhook

import (
	"net/url"
	"regexp"
	"strings"
)

// parts takes any text apart as RFC 3986 (appendix B) takes a URI reference: scheme,
// authority, path, query and fragment, each with the delimiter that sets it off.
var parts = regexp.MustCompile(`(?s)^([A-Za-z][A-Za-z0-9+.-]*:)?(//[^/?#]*)?([^?#]*)(\?[^#]*)?(#.*)?$`)

// What each part of a URI reference may hold beside letters and digits.
const (
	unreserved  = "-._~"
	inPath      = unreserved + "!$&'()*+,;=:@/"
	inAuthority = inPath + "[]"
	inQuery     = inPath + "?"
)

// reference makes any text a URI reference. What a part of one may not hold is
// percent-encoded once; a text that is one already, with its own %20, comes back as it
// is.
func reference(s string) string {
	p := parts.FindStringSubmatch(s)
	ref := p[1] + encode(p[2], inAuthority) + encode(p[3], inPath) + encode(p[4], inQuery)
	if p[5] != "" {
		ref += "#" + encode(p[5][1:], inQuery)
	}
	if _, err := url.Parse(ref); err != nil {
		// Its parts do not fit together, as in 7:shop or http://[shop: then it is a
		// name in one piece.
		return encode(s, unreserved)
	}
	return ref
}

// encode percent-encodes, on UTF-8 bytes, all but letters, digits, what is kept, and
// what is percent-encoded already.
func encode(s, kept string) string {
	var out strings.Builder
	for i := range len(s) {
		if c := s[i]; alphanumeric(c) || strings.IndexByte(kept, c) >= 0 || c == '%' && len(s) > i+2 && hexadecimal(s[i+1]) && hexadecimal(s[i+2]) {
			out.WriteByte(c)
			continue
		}
		escape(&out, s[i])
	}
	return out.String()
}

func alphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

func hexadecimal(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'F' || c >= 'a' && c <= 'f'
}

func escape(out *strings.Builder, c byte) {
	const hex = "0123456789ABCDEF"
	out.Write([]byte{'%', hex[c>>4], hex[c&15]})
}
