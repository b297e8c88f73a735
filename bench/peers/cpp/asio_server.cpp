// asio_server.cpp - the same servers on Asio (standalone, as Debian packages it), the C++ library that most others are held
// against. One thread and one io_context, written the way its own examples are, with what makes it quick: no locking
// (there is one thread), TCP_NODELAY, a receive buffer of 32 KiB per connection as the .NET peers have.
//
//   echo   reads what there is and writes all of it back before it reads again.
//   push   one shared log of 32-byte messages (load/message.h), each client an offset; the rules of peers/c/push_epoll.c:
//          nothing is dropped, the log waits for the slowest, and a client that reads nothing for a second is closed.
//
// Asio uses epoll by default; built with -DASIO_HAS_IO_URING -DASIO_DISABLE_EPOLL it is the peer asio-uring.
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <asio.hpp>

#include "../../load/message.h"

using asio::ip::tcp;
using error = asio::error_code;

#if defined(ASIO_DISABLE_EPOLL)
static constexpr const char *engine = "asio-uring";
#else
static constexpr const char *engine = "asio";
#endif

// ---- echo -----------------------------------------------------------------------------------------------------------

// Lives as long as one of its operations is pending; without any its socket closes.
class echo_session : public std::enable_shared_from_this<echo_session> {
public:
    explicit echo_session(tcp::socket socket) : socket_(std::move(socket)) {}

    void read()
    {
        socket_.async_read_some(asio::buffer(bytes_), [self = shared_from_this()](error failed, std::size_t count) {
            if (!failed) self->write(count);
        });
    }

private:
    void write(std::size_t count)
    {
        asio::async_write(socket_, asio::buffer(bytes_, count), [self = shared_from_this()](error failed, std::size_t) {
            if (!failed) self->read();
        });
    }

    tcp::socket socket_;
    std::array<std::uint8_t, 32 * 1024> bytes_;
};

// ---- push -----------------------------------------------------------------------------------------------------------

class push_server;

class push_client : public std::enable_shared_from_this<push_client> {
public:
    push_client(tcp::socket socket, push_server &server, std::uint64_t from) : at(from), socket_(std::move(socket)), server_(server) {}

    void watch();
    void send();
    void close();

    std::uint64_t at;                                       // offset into the log, counted from the beginning of time
    std::chrono::steady_clock::time_point behind_since{};   // since when it holds the log
    bool sending = false, open = true;

private:
    tcp::socket socket_;
    push_server &server_;
    std::array<std::uint8_t, 64> unwanted_;
};

class push_server {
public:
    static constexpr std::uint64_t log_messages = 32768, log_size = log_messages * MESSAGE_SIZE, batch = 1024;

    explicit push_server(asio::io_context &context) : timer_(context), context_(context), ring_(log_messages) {}

    void add(tcp::socket socket)
    {
        auto client = std::make_shared<push_client>(std::move(socket), *this, head_);
        clients_.push_back(client);
        client->watch();
        produce();
    }

    // Appends a batch while the slowest has space for it, and continues in the next iteration, so that others run in between.
    void produce()
    {
        if (posted_ || clients_.empty()) return;
        posted_ = true;
        asio::post(context_, [this] {
            posted_ = false;
            if (!make_room()) return;
            for (std::uint64_t i = 0; i < batch; i++, head_ += MESSAGE_SIZE)
                message_make(&ring_[head_ / MESSAGE_SIZE % log_messages], head_ / MESSAGE_SIZE);
            for (auto &client : clients_)
                if (!client->sending) client->send();
            produce();
        });
    }

    // What can be sent as one piece: up to the head or to the end of the ring.
    asio::const_buffer from(std::uint64_t at) const
    {
        std::uint64_t position = at % log_size, length = head_ - at;
        if (length > log_size - position) length = log_size - position;
        return asio::buffer(reinterpret_cast<const std::uint8_t *>(ring_.data()) + position, static_cast<std::size_t>(length));
    }

private:
    // Takes out those that are gone or held the log for a second. False if it is full: then the next completed write continues.
    bool make_room()
    {
        auto now = std::chrono::steady_clock::now();
        std::uint64_t slowest = head_;
        for (std::size_t i = 0; i < clients_.size();) {
            auto &client = clients_[i];
            if (client->open && head_ - client->at > log_size - batch * MESSAGE_SIZE) {
                if (client->behind_since == std::chrono::steady_clock::time_point{}) client->behind_since = now;
                else if (now - client->behind_since > std::chrono::seconds(1)) client->close();
            }
            if (!client->open) {
                std::swap(client, clients_.back());
                clients_.pop_back();
                continue;
            }
            if (client->at < slowest) slowest = client->at;
            i++;
        }
        if (clients_.empty()) return false;
        if (head_ - slowest <= log_size - batch * MESSAGE_SIZE) return true;
        if (!waiting_) {
            // Only for a client that never reads: no other event would check it again.
            waiting_ = true;
            timer_.expires_after(std::chrono::milliseconds(100));
            timer_.async_wait([this](error) {
                waiting_ = false;
                produce();
            });
        }
        return false;
    }

    asio::steady_timer timer_;
    asio::io_context &context_;
    std::vector<message> ring_;
    std::vector<std::shared_ptr<push_client>> clients_;
    std::uint64_t head_ = 0;
    bool posted_ = false, waiting_ = false;
};

// Clients only receive. Anything that comes is their end, or bytes that we do not want.
void push_client::watch()
{
    socket_.async_read_some(asio::buffer(unwanted_), [self = shared_from_this()](error failed, std::size_t) {
        if (failed) self->close();
        else self->watch();
    });
}

void push_client::send()
{
    asio::const_buffer piece = server_.from(at);
    if (!open || piece.size() == 0) return;
    sending = true;
    socket_.async_write_some(piece, [self = shared_from_this()](error failed, std::size_t count) {
        self->sending = false;
        if (failed) {
            self->close();
        } else {
            self->at += count;
            self->behind_since = {};
            self->send();
        }
        self->server_.produce();
    });
}

void push_client::close()
{
    error ignored;
    open = false;
    socket_.close(ignored);
}

// ---- both -----------------------------------------------------------------------------------------------------------

template <typename Take>
static void accept(tcp::acceptor &acceptor, Take take)
{
    acceptor.async_accept([&acceptor, take](error failed, tcp::socket socket) {
        if (!failed) {
            error ignored;
            socket.set_option(tcp::no_delay(true), ignored);
            take(std::move(socket));
        }
        accept(acceptor, take);
    });
}

int main(int argc, char **argv)
{
    unsigned long port = 0;
    bool push = argc > 1 && std::strcmp(argv[1], "push") == 0;
    bool right = argc == 4 && (push || std::strcmp(argv[1], "echo") == 0) && std::strcmp(argv[2], "--port") == 0;
    if (right) {
        char *end;
        port = std::strtoul(argv[3], &end, 10);
        right = end != argv[3] && *end == 0 && port <= 65535;
    }
    if (!right) return std::fputs("usage: asio_server echo|push --port N\n", stderr), 2;

    try {
        asio::io_context context(ASIO_CONCURRENCY_HINT_UNSAFE); // one thread: no locks
        tcp::acceptor acceptor(context);
        tcp::endpoint here(asio::ip::address_v4::loopback(), static_cast<unsigned short>(port));
        acceptor.open(here.protocol());
        acceptor.set_option(tcp::acceptor::reuse_address(true));
        acceptor.bind(here);
        acceptor.listen();
        std::printf("listening on 127.0.0.1:%u (engine %s, loops 1)\n", static_cast<unsigned>(acceptor.local_endpoint().port()), engine);
        std::fflush(stdout);
        push_server server(context);
        if (push) accept(acceptor, [&server](tcp::socket socket) { server.add(std::move(socket)); });
        else accept(acceptor, [](tcp::socket socket) { std::make_shared<echo_session>(std::move(socket))->read(); });
        context.run();
    } catch (const std::exception &e) {
        std::fprintf(stderr, "asio_server: %s\n", e.what());
        return 1;
    }
}
