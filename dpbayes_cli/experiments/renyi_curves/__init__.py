"""Studies of Renyi curves: what a draw of a posterior costs at each order, and at which order that becomes infinite."""
