//! Numbered objects. A new object gets the lowest free number, as with the driver's allocators.

/// Objects with numbers from `first` up to (not including) `end`.
pub struct Table<T> {
    entries: Vec<Option<T>>,
    first: usize,
    end: usize,
}

impl<T> Table<T> {
    /// Makes an empty table.
    pub fn new(first: usize, end: usize) -> Self {
        Self {
            entries: Vec::new(),
            first,
            end,
        }
    }

    /// Inserts `object` at the lowest free number and returns it; `None` when all numbers are in
    /// use.
    pub fn insert(&mut self, object: T) -> Option<usize> {
        let free = (self.first..self.entries.len()).find(|&number| self.entries[number].is_none());
        let number = free.unwrap_or(self.entries.len().max(self.first));
        if number >= self.end {
            return None;
        }
        if number >= self.entries.len() {
            self.entries.resize_with(number + 1, || None);
        }
        self.entries[number] = Some(object);
        Some(number)
    }

    /// Returns the object with a number.
    #[inline]
    pub fn get(&self, number: usize) -> Option<&T> {
        self.entries.get(number)?.as_ref()
    }

    /// Returns the object with a number, mutable.
    #[inline]
    pub fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        self.entries.get_mut(number)?.as_mut()
    }

    /// Removes and returns the object with a number.
    pub fn remove(&mut self, number: usize) -> Option<T> {
        let object = self.entries.get_mut(number)?.take();
        while matches!(self.entries.last(), Some(None)) {
            self.entries.pop();
        }
        object
    }

    /// Returns one more than the highest number in use.
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Iterates over the objects with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(number, entry)| Some((number, entry.as_ref()?)))
    }

    /// Iterates over the objects.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn assigns_lowest_free_number_within_bounds() {
        let mut table = Table::new(1, 4);
        assert_eq!(
            [table.insert('a'), table.insert('b'), table.insert('c')],
            [Some(1), Some(2), Some(3)]
        );
        assert_eq!(table.insert('d'), None);
        assert_eq!(table.remove(2), Some('b'));
        assert_eq!(table.insert('e'), Some(2));
        assert_eq!(table.get(0), None);
        assert_eq!(table.get(2), Some(&'e'));
        assert_eq!(table.remove(9), None);
    }

    #[test]
    fn length_shrinks_with_the_last_object() {
        let mut table = Table::new(0, 8);
        table.insert(());
        table.insert(());
        table.remove(0);
        assert_eq!(table.len(), 2);
        table.remove(1);
        assert_eq!(table.len(), 0);
    }
}
