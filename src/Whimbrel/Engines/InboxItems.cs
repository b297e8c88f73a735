namespace Whimbrel.Engines;

/// <summary>Free entries of the inboxes of one loop, last in first out. Any thread.</summary>
internal sealed class InboxItems
{
    /// <summary>Number of free entries that are kept, per size.</summary>
    internal const int MostKept = 4096;
    internal const int MostKeptLarge = 256;

    private readonly Lock _gate = new();
    private InboxItem? _plain;
    private InboxItem? _small;
    private InboxItem? _large;
    private int _plainCount;
    private int _smallCount;
    private int _largeCount;
    private InboxItem? _returning; // of the loop, until the end of its step
    private long _charge; // of the entries moved in this step
    private int _outstanding;
    private long _outstandingBytes;

    internal InboxItems()
    {
        // Created in advance, so that the first send of another thread allocates nothing.
        Keep(new InboxItem(this, InboxItem.SmallCapacity), ref _small, ref _smallCount, MostKept);
    }

    /// <summary>Entries in use. Zero when all connections are gone.</summary>
    internal int Outstanding => Volatile.Read(ref _outstanding);

    /// <summary>Memory of the entries in use.</summary>
    internal long OutstandingBytes => Volatile.Read(ref _outstandingBytes);

    /// <summary>An entry without memory.</summary>
    internal InboxItem Take() => Take(ref _plain, ref _plainCount, 0);

    internal InboxItem TakeSmall() => Take(ref _small, ref _smallCount, InboxItem.SmallCapacity);

    internal InboxItem TakeLarge() => Take(ref _large, ref _largeCount, InboxItem.Capacity);

    /// <summary>A block of any size, for a message to several connections.</summary>
    internal InboxItem TakeBlock(int length)
    {
        if (length <= InboxItem.Capacity) return TakeLarge();
        // tidy: allowed because a copy of more than 32 KiB follows
        lock (_gate)
        {
            _outstanding++;
            _outstandingBytes += length;
        }

        return new InboxItem(this, length);
    }

    /// <summary>Takes up to <paramref name="most"/> linked entries without memory, at least one.</summary>
    internal InboxItem TakeSeveral(int most)
    {
        InboxItem? first = null;
        // tidy: allowed because entries are taken on one thread and returned on another, and the lock is never nested
        lock (_gate)
        {
            for (; most > 0 && _plain is { } item; most--)
            {
                _plain = item.Next;
                _plainCount--;
                _outstanding++;
                item.Next = first;
                first = item;
            }
        }

        return first ?? Take();
    }

    private InboxItem Take(ref InboxItem? free, ref int count, int capacity)
    {
        InboxItem? item;
        // tidy: allowed because entries are taken on one thread and returned on another, and the lock is never nested
        lock (_gate)
        {
            _outstanding++;
            _outstandingBytes += capacity;
            item = free;
            if (item is not null)
            {
                free = item.Next;
                count--;
            }
        }

        if (item is null) return new InboxItem(this, capacity);
        item.Next = null;
        return item;
    }

    internal void Return(InboxItem item)
    {
        Clean(item);
        item.Next = null;
        ReturnAll(item);
    }

    /// <summary>
    /// Returns an entry at the next <see cref="EndStep"/>, which takes the lock once for all. Loop's thread.
    /// </summary>
    internal void ReturnHere(InboxItem item)
    {
        Clean(item);
        item.Next = _returning;
        _returning = item;
    }

    /// <summary>Counts the charge of a moved entry. Loop's thread.</summary>
    internal void Moved(int charge) => _charge += charge;

    /// <summary>Frees the entries moved in this step, and returns their charge, which the caller gives back.</summary>
    internal long EndStep()
    {
        long charge = _charge;
        _charge = 0;
        if (_returning is { } items)
        {
            _returning = null;
            ReturnAll(items);
        }

        return charge;
    }

    private static void Clean(InboxItem item)
    {
        item.Payload = null;
        item.Offset = 0;
        item.Length = 0;
        item.Charge = 0;
        item.Messages = 0;
    }

    /// <summary>Returns linked entries that are clean.</summary>
    internal void ReturnAll(InboxItem items)
    {
        // tidy: allowed because entries are taken on one thread and returned on another, and the lock is never nested
        lock (_gate)
        {
            for (InboxItem? item = items, next; item is not null; item = next)
            {
                next = item.Next;
                _outstanding--;
                _outstandingBytes -= item.Size;
                if (item.Size == 0) Keep(item, ref _plain, ref _plainCount, MostKept);
                else if (item.Size == InboxItem.SmallCapacity) Keep(item, ref _small, ref _smallCount, MostKept);
                else Keep(item, ref _large, ref _largeCount, item.Size == InboxItem.Capacity ? MostKeptLarge : 0);
            }
        }
    }

    /// <summary>Frees the memory of free entries when the loop has ended.</summary>
    internal void Clear()
    {
        // tidy: allowed because it runs once, when the loop has ended
        lock (_gate)
        {
            for (; _large is { } item; _large = item.Next) item.Free();
            _largeCount = 0;
        }
    }

    private static void Keep(InboxItem item, ref InboxItem? free, ref int count, int most)
    {
        if (count >= most)
        {
            item.Free();
            return;
        }

        item.Next = free;
        free = item;
        count++;
    }
}
