using Whimbrel.Connections;

namespace Whimbrel.Engines;

/// <summary>
/// Handles with a receive that failed for lack of memory. They are tried again after a pause instead of in every turn.
/// Part of an engine's loop; its thread only.
/// </summary>
/// <param name="loop">Loop with the timer that ends the pause.</param>
/// <param name="rested">Callback for each handle after its pause; starts receiving again if it is still wanted.</param>
internal sealed class Rests(Loop loop, Action<Resident> rested)
{
    private const int RestMs = 10;

    private readonly Queue<(Resident Resident, uint Generation)> _resting = new();
    private bool _isTimed;

    internal void Add(Resident resident)
    {
        _resting.Enqueue((resident, resident.SlotGeneration));
        if (_isTimed) return;
        _isTimed = true;
        loop.StartTimer(TimeSpan.FromMilliseconds(RestMs), static rests => ((Rests)rests!).End(), this);
    }

    /// <summary>Called when the loop ends; its timers have already ended.</summary>
    internal void Clear()
    {
        _resting.Clear();
        _isTimed = false;
    }

    private void End()
    {
        _isTimed = false;
        // A handle that fails at once is added again.
        for (int count = _resting.Count; count > 0; count--)
        {
            (Resident resident, uint generation) = _resting.Dequeue();
            if (resident.Slot >= 0 && resident.SlotGeneration == generation) rested(resident);
        }
    }
}
