using System.Runtime.ExceptionServices;
using Whimbrel.Connections;

namespace Whimbrel;

/// <summary>Receiving by an async method: no more data is delivered while it runs.</summary>
public abstract partial class Session
{
    /// <summary>
    /// The posted action that carries the exception of an OnReceivedAsync to its session; messages then name
    /// OnReceivedAsync.
    /// </summary>
    internal static readonly Action<object?> RethrowReceived =
        static thrown => ((ExceptionDispatchInfo)thrown!).Throw();

    private static readonly Action<object?> s_release = static session => ((Session)session!).ReleaseCallback();

    // An AsyncReceive, or the array of ReceiveBuffer. One field serves both, because a class with an async callback
    // gets copies in any case.
    private object? _receiving;

    /// <summary>
    /// Called with received data, like <see cref="OnReceived"/>, for methods that await. All of it counts as consumed.
    /// Until the task has completed, no more data and no end of stream is delivered, and the peer has to wait; other
    /// callbacks may run while it awaits. For classes that override neither <see cref="OnReceived"/> nor
    /// <see cref="OnData"/>.
    /// </summary>
    /// <remarks>
    /// Starts on the session's thread. Awaits of this library resume there; other awaits resume wherever they complete.
    /// The end of the connection does not wait for it; sends then return <see cref="SendResult.Closed"/>. A stop of the
    /// server does wait. Its exception goes to <see cref="OnError"/> and ends the connection, as in any callback; after
    /// the end it is a diagnostic event. After a hand-over the next session receives at once.
    /// </remarks>
    /// <param name="data">Copy of the received bytes, valid until the task has completed, also if the connection ends
    /// before.</param>
    protected virtual ValueTask OnReceivedAsync(ReadOnlyMemory<byte> data) => default;

    internal ValueTask CallReceivedAsync(ReadOnlyMemory<byte> data) => OnReceivedAsync(data);

    private void StartReceivedAsync(ReadOnlySpan<byte> data)
    {
        if (_receiving is not AsyncReceive && (FindHooks() & SessionHooks.ReceivedAsync) != 0)
            _receiving = new AsyncReceive(this);
        (_receiving as AsyncReceive)?.Start(data);
    }

    /// <summary>Starts deliveries again. On the session's thread.</summary>
    private void ReleaseCallback()
    {
        if (RunningPool is { } pool) pool.Strand.Release(ReceiveGate.Callback);
        else if (_connection is { } connection && connection.Generation == _generation) connection.ReleaseCallback();
    }

    /// <summary>Called when the async callback has completed. Any thread.</summary>
    internal void ReceivedAsyncEnded(Exception? thrown, bool outlived)
    {
        if (thrown is null
            && (RunningPool is not null || (_connection is { Pool: null } connection && connection.Loop.IsCurrent)))
            ReleaseCallback();
        else if (outlived || !PostCall(thrown is null ? s_release : RethrowReceived,
            thrown is null ? this : ExceptionDispatchInfo.Capture(thrown)))
            NoteLate(thrown, nameof(OnReceivedAsync));
        if (outlived) _host!.HandlerEnded(this);
    }

    /// <summary>
    /// Reports a diagnostic event, because no callback can report the exception any more. A network error or a
    /// cancellation is expected after the end and not logged.
    /// </summary>
    private void NoteLate(Exception? thrown, string what)
    {
        if (thrown is null or NetworkException or OperationCanceledException) return;
        Loop.Engine.UserCodeThrew(thrown);
        _host!.CountUserException();
        _host.NoteUserException(this, what, thrown);
    }
}
