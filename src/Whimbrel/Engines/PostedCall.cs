using System.Collections.Concurrent;

namespace Whimbrel.Engines;

/// <summary>
/// An awaited action posted to a session. Taken from its engine's pool, and returned by its awaiter, so an awaited post
/// allocates nothing. Without an awaiter, the object is left to the garbage collector.
/// </summary>
internal sealed class PostedCall : Completion<bool>
{
    /// <summary>The action to post, with the call as its argument.</summary>
    internal static readonly Action<object?> Run = static call => ((PostedCall)call!).RunHere();

    private const int MostSpare = 256; // of an engine

    private Action<object?>? _action;
    private object? _state;

    private PostedCall(Engine engine)
        : base(engine)
    {
    }

    internal static PostedCall Take(Engine engine, Action<object?> action, object? state)
    {
        if (!engine.SparePosts.TryDequeue(out PostedCall? call)) call = new PostedCall(engine);
        call._action = action;
        call._state = state;
        return call;
    }

    /// <summary>Returns the object to the pool: the post was rejected, and no caller has its task.</summary>
    internal void GiveUp() => Consumed();

    private void RunHere()
    {
        try
        {
            _action!(_state);
        }
        catch (Exception e)
        {
            SetException(e);
            return;
        }

        SetResult(true);
    }

    private protected override void Consumed()
    {
        _action = null;
        _state = null;
        Reset();
        ConcurrentQueue<PostedCall> spare = Engine.SparePosts;
        if (spare.Count < MostSpare) spare.Enqueue(this);
    }
}
