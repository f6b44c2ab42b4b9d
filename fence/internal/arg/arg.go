// Package arg looks at arguments.
package arg

import "reflect"

// IsNil reports whether v is nil, or an interface that holds a nil pointer or function: what compares unequal to nil, and panics
// when it is called.
func IsNil(v any) bool {
	if v == nil {
		return true
	}
	switch value := reflect.ValueOf(v); value.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Slice, reflect.Chan:
		return value.IsNil()
	}
	return false
}
