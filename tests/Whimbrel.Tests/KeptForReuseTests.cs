using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Engines;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

// Lists of free objects, by their limits in docs/limits.md: as many are kept as the limit says, and not one more. For
// the blocks of the pool see StrandBlocksTests.
public sealed class KeptForReuseTests
{
    private static readonly Loop s_loop = new MemoryEngine(1, faults: MemoryFaults.None).GetLoop(0);

    public static TheoryData<string, int> Limits => new()
    {
        { "entries of inboxes without bytes", 4096 },
        { "entries of inboxes of 1 KiB", 4096 },
        { "entries of inboxes of 32 KiB", 256 },
        { "segments of 4 KiB", 4096 },
        { "segments of 64 KiB", 256 },
        { "marks of SentAsync", 256 },
        { "blocks of writers of 32 KiB", 256 },
    };

    [Theory]
    [MemberData(nameof(Limits))]
    public void As_many_free_objects_are_kept_as_the_limit_says_each_time(string what, int limit)
    {
        (Func<object> take, Action<object> put) = ListOf(what);
        for (int time = 0; time < 2; time++)
        {
            object[] taken = [.. Enumerable.Range(0, limit + 10).Select(_ => take())];
            foreach (object each in taken) put(each);
            HashSet<object> known = new(taken, ReferenceEqualityComparer.Instance);
            object[] again = [.. Enumerable.Range(0, limit + 10).Select(_ => take())];
            Assert.Equal(limit, again.Count(known.Contains));
            Assert.Equal(again.Length, again.Distinct(ReferenceEqualityComparer.Instance).Count());
            foreach (object each in again) put(each);
        }
    }

    private static (Func<object> Take, Action<object> Put) ListOf(string what)
    {
        InboxItems items = new();
        PipeSegments segments = new();
        FreeSentMarks marks = new();
        Action<object> putItem = item => items.Return((InboxItem)item),
            putSegment = segment => segments.Return((PipeSegment)segment);
        return what switch
        {
            "entries of inboxes without bytes" => (items.Take, putItem),
            "entries of inboxes of 1 KiB" => (items.TakeSmall, putItem),
            "entries of inboxes of 32 KiB" => (items.TakeLarge, putItem),
            "segments of 4 KiB" => (() => segments.Take(items, PipeSegments.Short, 0), putSegment),
            "segments of 64 KiB" => (() => segments.Take(items, PipeSegments.Long, 0), putSegment),
            "blocks of writers of 32 KiB" => (static () => WriterBlocks.Take(32 * 1024),
                static block => WriterBlocks.Return((WriterBlock)block)),
            _ => (() => marks.Take(s_loop), mark => marks.Return(s_loop, (SentMark)mark)),
        };
    }
}
