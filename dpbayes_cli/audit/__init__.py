"""Does a mechanism keep its promise? Its parts are looked at, then the whole is attacked."""
