//! Rules of disruption budgets, one by one.
