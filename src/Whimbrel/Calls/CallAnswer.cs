namespace Whimbrel;

/// <summary>
/// The answer to a call, on loan: dispose it when it has been read, once and for all copies, so that the next call allocates nothing. One that is
/// never disposed is left to the garbage collector. Any thread.
/// </summary>
public readonly struct CallAnswer : IDisposable, IEquatable<CallAnswer>
{
    private readonly Call? _call;
    private readonly int _loan;

    internal CallAnswer(Call call, int loan)
    {
        _call = call;
        _loan = loan;
    }

    /// <summary>The body of the answer. Valid until it is disposed.</summary>
    /// <exception cref="ObjectDisposedException">It was disposed.</exception>
    public ReadOnlyMemory<byte> Memory => _call is { } call ? call.AnswerOf(_loan) : default;

    /// <summary>The body of the answer. Valid until it is disposed.</summary>
    /// <exception cref="ObjectDisposedException">It was disposed.</exception>
    public ReadOnlySpan<byte> Span => Memory.Span;

    /// <summary>Gives the memory back. A second time does nothing.</summary>
    public void Dispose() => _call?.EndLoan(_loan);

    /// <inheritdoc/>
    public bool Equals(CallAnswer other) => ReferenceEquals(_call, other._call) && _loan == other._loan;

    /// <inheritdoc/>
    public override bool Equals(object? obj) => obj is CallAnswer other && Equals(other);

    /// <inheritdoc/>
    public override int GetHashCode() => HashCode.Combine(_call, _loan);

    /// <summary>The same answer.</summary>
    /// <param name="left">One.</param>
    /// <param name="right">The other.</param>
    public static bool operator ==(CallAnswer left, CallAnswer right) => left.Equals(right);

    /// <summary>Not the same answer.</summary>
    /// <param name="left">One.</param>
    /// <param name="right">The other.</param>
    public static bool operator !=(CallAnswer left, CallAnswer right) => !left.Equals(right);
}
