using System.Runtime.ExceptionServices;
using Whimbrel.Connections;

namespace Whimbrel;

/// <summary>Receiving by an async method: the session gets nothing more while it runs.</summary>
public abstract partial class Session
{
    /// <summary>What a posted action is that brings the exception of an OnReceivedAsync to its session: it has that name in messages.</summary>
    internal static readonly Action<object?> RethrowReceived = static thrown => ((ExceptionDispatchInfo)thrown!).Throw();

    private static readonly Action<object?> s_release = static session => ((Session)session!).ReleaseCallback();

    // An AsyncReceive, or the array of ReceiveBuffer: most sessions have neither, and a method that awaits gets copies in any case.
    private object? _receiving;

    /// <summary>
    /// Bytes arrived: <see cref="OnReceived"/> for methods that await. All are taken. Until the task has completed nothing more is
    /// delivered, neither bytes nor the peer's end, and the peer has to wait; other callbacks may come where it awaits. For classes that override neither
    /// <see cref="OnReceived"/> nor <see cref="OnData"/>.
    /// </summary>
    /// <remarks>
    /// It begins on the session's thread. Awaits of this library go on there; others go on wherever they do. The end of the connection does not
    /// wait for it: sends give <see cref="SendResult.Closed"/> then. A stop of the server does. What it throws goes to <see cref="OnError"/> and ends the
    /// connection, as in any callback; after the end a notice tells. After a hand-over the next session receives at once.
    /// </remarks>
    /// <param name="data">A copy of this call's own, valid until its task has completed, also when the connection ends before.</param>
    protected virtual ValueTask OnReceivedAsync(ReadOnlyMemory<byte> data) => default;

    internal ValueTask CallReceivedAsync(ReadOnlyMemory<byte> data) => OnReceivedAsync(data);

    private void StartReceivedAsync(ReadOnlySpan<byte> data)
    {
        if (_receiving is not AsyncReceive && (FindHooks() & SessionHooks.ReceivedAsync) != 0) _receiving = new AsyncReceive(this);
        (_receiving as AsyncReceive)?.Start(data);
    }

    /// <summary>Inside a callback.</summary>
    internal void HoldForCallback()
    {
        if (RunningStrand is { } strand) strand.HoldForCallback();
        else if (_connection is { } connection && connection.Generation == _generation) connection.HoldForCallback();
    }

    /// <summary>On the session's thread.</summary>
    private void ReleaseCallback()
    {
        if (RunningStrand is { } strand) strand.ReleaseCallback();
        else if (_connection is { } connection && connection.Generation == _generation) connection.ReleaseCallback();
    }

    /// <summary>Any thread.</summary>
    internal void ReceivedAsyncEnded(Exception? thrown, bool outlived)
    {
        if (thrown is null && (RunningStrand is not null || (_connection is { Strand: null } connection && connection.Loop.IsCurrent))) ReleaseCallback();
        else if (outlived || !PostCall(thrown is null ? s_release : RethrowReceived, thrown is null ? this : ExceptionDispatchInfo.Capture(thrown))) NoteLate(thrown, nameof(OnReceivedAsync));
        if (outlived) _host!.HandlerEnded(this);
    }

    /// <summary>There is no callback any more that could tell it. That the connection has failed under it is no news.</summary>
    private void NoteLate(Exception? thrown, string what)
    {
        if (thrown is null or NetworkException or OperationCanceledException) return;
        Loop.Engine.UserCodeThrew(thrown);
        _host!.CountUserException();
        _host.NoteUserException(this, what, thrown);
    }
}
