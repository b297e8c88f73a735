namespace Whimbrel;

/// <summary>Calls in FIFO order; each is in at most one list.</summary>
internal sealed class CallList
{
    private Call? _last;

    internal Call? First { get; private set; }

    internal int Count { get; private set; }

    internal void AddLast(Call call) => Insert(_last, call, null);

    internal void AddFirst(Call call) => Insert(null, call, First);

    internal void Remove(Call call)
    {
        if (call.Before is null) First = call.After;
        else call.Before.After = call.After;
        if (call.After is null) _last = call.Before;
        else call.After.Before = call.Before;
        call.Before = null;
        call.After = null;
        Count--;
    }

    private void Insert(Call? before, Call call, Call? after)
    {
        call.Before = before;
        call.After = after;
        if (before is null) First = call;
        else before.After = call;
        if (after is null) _last = call;
        else after.Before = call;
        Count++;
    }
}
