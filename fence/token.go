package fence

import "strconv"

// Token is a fencing token: it rises with every exclusive grant, for the whole life of a cluster name. Hand it to the resource with
// each write, and let the resource refuse a token lower than one it has accepted; then a holder that was paused past its
// lease cannot write over its successor. Zero is never a valid token.
//
// Tokens stay below 2^53 (MaxToken), and are written as decimal strings in text and JSON all the same: a reader that takes
// numbers for floats must not round them.
type Token int64

// MaxToken is the highest token that a checker accepts. Clusters count in microseconds since 1970, which reach it in the year
// 2255; what is higher is no token, but a time in other units, or a mistake, and would lock all holders out for good.
const MaxToken Token = 1<<53 - 1

// String gives the decimal form.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// MarshalText gives the decimal form; with it JSON carries a token as a string.
func (t Token) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(t), 10), nil }

// UnmarshalText accepts what ParseToken accepts.
func (t *Token) UnmarshalText(b []byte) error {
	v, err := ParseToken(string(b))
	if err != nil {
		return err
	}
	*t = v
	return nil
}

// ParseToken reads the decimal form. Zero, a negative number, a sign or a leading zero is a *FieldError.
func ParseToken(s string) (Token, error) {
	bad := &FieldError{Field: "token", Value: s, Problem: "must be a positive decimal number"}
	if s == "" || s[0] < '1' || s[0] > '9' {
		return 0, bad
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, bad
	}
	return Token(v), nil
}
