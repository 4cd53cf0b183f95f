package event

import "strings"

// What a tenant declares is under names of its own: in the service, its receiver hooks is
// north/hooks, where north is the tenant, so that two tenants may use one name and
// neither can tell. Names themselves hold no slash.

// Own is the name in the service of what a tenant calls so. Without a tenant it is the
// name itself.
func Own(tenant, name string) string {
	if tenant == "" {
		return name
	}
	return tenant + "/" + name
}

// Bare is what a tenant calls what has that name in the service: [Own] undone. Any other
// name is as it is.
func Bare(tenant, name string) string {
	if rest, ok := strings.CutPrefix(name, tenant+"/"); ok && tenant != "" && !strings.Contains(rest, "/") {
		return rest
	}
	return name
}

// Owner is the tenant under whose names a name is, or "".
func Owner(name string) string {
	i := strings.LastIndexByte(name, '/')
	return name[:max(i, 0)]
}
